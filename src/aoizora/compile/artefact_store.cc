#include "aoizora/compile/artefact_store.h"

#include <utility>

#include "aoizora/base/file.h"

namespace aoizora::compile {
namespace fs = std::filesystem;
namespace {

/// Over text and description, so that a flipped bit in either is seen.
std::string digest(const Json& meta, std::string_view text) {
  return sha256_hex(canonical_json(meta) + "\n" + std::string(text));
}

}  // namespace

ArtefactStore::ArtefactStore(fs::path folder, std::function<void(const std::string&)> warn)
    : folder_(std::move(folder)), warn_(std::move(warn)) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) {
    user_error("{}: the cache folder cannot be made: {}; choose another with --cache-dir", folder_.string(),
               failed.message());
  }
}

std::string ArtefactStore::key(const Json& job) { return sha256_hex(canonical_json(job)); }

fs::path ArtefactStore::path(const std::string& key, std::string_view extension) const {
  return folder_ / key.substr(0, 2) / (key + std::string(extension));
}

void ArtefactStore::set_aside(const std::string& key, const std::string& reason) const {
  std::error_code ignored;
  fs::rename(path(key, ".json"), path(key, ".json.corrupt"), ignored);
  if (warn_) {
    warn_(fmt::format("{}: corrupt cache entry ({}); set aside and made again", path(key, ".json").string(),
                      reason));
  }
}

std::optional<ArtefactStore::Artefact> ArtefactStore::load(const std::string& key) const {
  const fs::path description = path(key, ".json");
  std::error_code failed;
  if (!fs::exists(description, failed)) return std::nullopt;
  try {
    const std::string name = description.string();
    const Json document = parse_json(read_text(description), name);
    const JsonView json(document, name);
    Artefact artefact;
    artefact.meta = json.at("meta").raw();
    artefact.text = read_text(path(key, ".text"));
    if (digest(artefact.meta, artefact.text) != json.at("sha256").string()) {
      set_aside(key, "its content has another hash");
      return std::nullopt;
    }
    return artefact;
  } catch (const UserError& error) {
    set_aside(key, error.what());
    return std::nullopt;
  }
}

void ArtefactStore::save(const std::string& key, const Artefact& artefact) const {
  std::error_code failed;
  fs::create_directories(path(key, "").parent_path(), failed);
  write_atomically(path(key, ".text"), artefact.text);
  const Json document = {{"sha256", digest(artefact.meta, artefact.text)}, {"meta", artefact.meta}};
  write_atomically(path(key, ".json"), document.dump(1) + "\n");
}

}  // namespace aoizora::compile
