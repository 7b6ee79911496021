#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/base/units.h"

namespace aoizora::network {

/// Every constant of one chip kind, each with its source (N8). Read from a JSON file of the `profiles` folder
/// (compiled into the library) or given by the user; `calibrate` writes a new one.
struct Profile {
  std::string kind;              // `v5e`
  std::string name;              // `v5e-default`
  BytesPerMicro link_bandwidth;  // one way, one link, what a long transfer reaches
  Micros hop_latency;            // per hop
  Micros launch;                 // per step of a collective
  double clock_per_micro = 0;    // cycles per microsecond
  double peak_flops_per_micro = 0;
  BytesPerMicro hbm_bandwidth;
  Bytes hbm_capacity;
  double matmul_efficiency = 0;  // of peak, for ops priced by the roofline (N6)
  double flash_efficiency = 0;   // of peak, for attention kernels (N9)
  double hbm_efficiency = 0;
  /// What the model is off by against the points that it was checked with; differences below it are ties.
  double stated_error = 0;
  double core_link_scale = 1;                  // bandwidth between the two devices of a chip, in ICI links
  BytesPerMicro dcn_bandwidth;                 // one way, of one host, between slices
  Micros dcn_latency;                          // per uplink or downlink
  std::map<std::string, std::string> sources;  // constant -> where it comes from

  /// The built-in profile of a chip kind; UserError lists the kinds.
  static Profile builtin(std::string_view kind);
  /// UserError with the file and the constant that is missing, negative or of the wrong type.
  static Profile parse(std::string_view json_text, const std::string& file);
  /// What parse reads, canonical: constants in a fixed order, each with its unit and source.
  std::string to_json() const;
};

/// Kinds that have a built-in profile: `v4, v5e, ...`.
std::string builtin_profile_names();

}  // namespace aoizora::network
