#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "aoizora/enumerate/candidate.h"
#include "aoizora/enumerate/model_description.h"

namespace aoizora::enumerate {

/// Which candidates there are: the declarative description a user narrows or widens.
/// JSON: `{"mesh_axes": [...], "attention": [...], "rules": [[logical, [mesh axes]]...],
///         "variants": [{"name": "...", "rules": [...]}...], "sizes": {"tensor": [1, 2, 4]}}`.
/// A variant's rules come before the common ones, so they win.
struct Space {
  struct Variant {
    std::string name;
    AxisRules rules;
  };
  std::vector<std::string> mesh_axes;
  std::vector<std::string> attention;
  AxisRules rules;
  std::vector<Variant> variants;
  /// Allowed sizes of a mesh axis; an axis that is not listed may have any size.
  std::map<std::string, std::vector<std::int64_t>> sizes;

  /// The space of diffusion transformers in MaxDiffusion's axis names.
  static Space builtin();
  /// UserError with the file and the member that is wrong.
  static Space parse(std::string_view json_text, const std::string& file);
};

struct Illegal {
  Candidate candidate;
  std::string reason;  // `12 heads do not divide by 8`
};

/// Legal candidates in a fixed order, the rest with reasons, and how many were the same program as another.
struct Enumeration {
  std::vector<Candidate> legal;
  std::vector<Illegal> illegal;
  std::int64_t duplicates = 0;
};

/// All ordered factorisations of `chips` over the mesh axes × variants × attention strategies.
/// UserError when the space names an attention strategy that the model does not have, or nothing is legal.
Enumeration enumerate(const ModelDescription& model, std::int64_t chips, const Space& space);

/// Every way to write `n` as an ordered product of `parts` factors >= 1, in lexicographic order.
std::vector<std::vector<std::int64_t>> ordered_factorisations(std::int64_t n, std::size_t parts);

}  // namespace aoizora::enumerate
