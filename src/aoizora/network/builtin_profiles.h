#pragma once

#include <span>
#include <string_view>

namespace aoizora::network {

/// A file of profiles/, compiled into the library.
struct BuiltinProfile {
  std::string_view kind;
  std::string_view json;
};
std::span<const BuiltinProfile> builtin_profiles();

}  // namespace aoizora::network
