#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "aoizora/base/json.h"

namespace aoizora::compile {

/// Finished work of the compiler, kept content-addressed under a folder:
///   KEY[0:2]/KEY.json   what it is: `meta`, and the SHA-256 of meta and text
///   KEY[0:2]/KEY.text   HLO or MLIR
/// where KEY is the SHA-256 of the job's canonical JSON. The text is written first and the JSON renamed into
/// place last, so a reader sees a whole artefact or none, whatever is killed when; many processes may share a
/// folder.
class ArtefactStore {
 public:
  struct Artefact {
    Json meta;
    std::string text;
  };

  /// Makes the folder when it is missing; UserError when it can't. `warn` hears of entries set aside.
  explicit ArtefactStore(std::filesystem::path folder, std::function<void(const std::string&)> warn = {});

  static std::string key(const Json& job);
  /// nullopt when there is none. A corrupt entry (not JSON, text missing or with another hash) is renamed to
  /// `*.corrupt`, warned about, and counts as none.
  std::optional<Artefact> load(const std::string& key) const;
  /// UserError when the disk is full or the folder not writable.
  void save(const std::string& key, const Artefact& artefact) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path path(const std::string& key, std::string_view extension) const;
  void set_aside(const std::string& key, const std::string& reason) const;

  std::filesystem::path folder_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace aoizora::compile
