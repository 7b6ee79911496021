#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "aoizora/base/json.h"
#include "aoizora/topology/slice.h"

namespace aoizora::place {

/// Device orders that the compiler refused (`limited ICI routing`), kept across runs so that no compile is
/// spent on them again. An order is known by its slice, the shape of the mesh, the chips, and what refused it
/// (versions and options of the compiler): another compiler is asked anew.
class Refusals {
 public:
  /// One file. A corrupt one is set aside (`FILE.corrupt`) with a warning and begun anew. An empty path keeps
  /// nothing.
  Refusals(std::filesystem::path file, Json compiler, std::function<void(const std::string&)> warn);

  std::optional<std::string> find(const std::string& slice, const std::vector<std::int32_t>& mesh,
                                  const std::vector<topology::Coordinates>& order) const;
  /// Written at once, atomically; what another process has added meanwhile is kept. A file that cannot be
  /// written costs a warning only.
  void add(const std::string& slice, const std::vector<std::int32_t>& mesh,
           const std::vector<topology::Coordinates>& order, const std::string& reason);

 private:
  Json load() const;
  Json entry(const std::string& slice, const std::vector<std::int32_t>& mesh,
             const std::vector<topology::Coordinates>& order) const;

  std::filesystem::path file_;
  Json compiler_;
  std::function<void(const std::string&)> warn_;
  Json orders_ = Json::array();
};

}  // namespace aoizora::place
