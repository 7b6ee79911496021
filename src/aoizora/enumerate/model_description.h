#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "aoizora/base/json.h"

namespace aoizora::enumerate {

/// What a model says of itself (worker operation `describe`): enough to know which shardings are legal.
struct ModelDescription {
  struct Tensor {
    std::string name;
    std::string kind;  // parameter | input | output | activation
    std::vector<std::int64_t> shape;
    std::string dtype;
    std::vector<std::string> axes;  // logical axis of each dimension; empty where it is never split
  };

  std::string name;
  Json options;             // resolved: every option with its value
  std::string fingerprint;  // SHA-256 of the unsharded program's StableHLO
  /// Logical axis -> every size that it has somewhere in the model.
  std::map<std::string, std::vector<std::int64_t>> axes;
  /// Logical axes that the model pads to whatever the mesh needs, so that any split is legal.
  std::vector<std::string> padded_axes;
  std::vector<Tensor> tensors;
  std::vector<std::string> attention_strategies;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t tokens = 0;
  std::int64_t padded_tokens = 0;
  double flops_per_step = 0;
  Json raw;
};

/// UserError names the member that is wrong.
ModelDescription description_from_json(const JsonView& json);

}  // namespace aoizora::enumerate
