#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aoizora/network/model.h"
#include "program.h"

/// Which placements of a program are measured.
namespace aoizora::testbed {

struct Choice {
  topology::Placement placement;
  std::string why;  // `class`, `best`, `worst`, `default`, `row_major`, `random`, `spread`, joined by +
};

struct Choices {
  bool exhaustive = false;   // every placement up to symmetry
  std::int64_t classes = 0;  // of placements up to symmetry; 0: too many chips to count
  std::vector<Choice> choices;
};

/// Up to `most` placements, decided before anything is measured: all of them up to symmetry where there are
/// no more than `exhaustive` (8 chips and fewer are counted), else the predicted best few and worst, what JAX
/// and row-major order give, a third evenly spread over the predicted range and a third at random.
Choices choose(const Program& program, const network::Model& model, std::size_t most, std::size_t exhaustive,
               std::uint64_t seed);

}  // namespace aoizora::testbed
