#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>

#include "aoizora/base/file.h"
#include "aoizora/base/json.h"
#include "aoizora/pipeline.h"

namespace aoizora {

/// The one wrapper around every stage: it announces, times, checks for Ctrl-C and dumps.
class Stages {
 public:
  Stages(const Observer& observer, const Cancel& cancel, std::string dump_folder)
      : observer_(observer), cancel_(cancel), dump_folder_(std::move(dump_folder)) {}

  template <typename Work>
  auto run(const std::string& name, Work work) {
    check();
    stage_ = name;
    done_ = 0;
    tell({Event::Kind::kBegin, name, "", 0, 0, 0});
    const auto start = std::chrono::steady_clock::now();
    auto result = work();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    times_.push_back({{"stage", name}, {"seconds", seconds}});
    tell({Event::Kind::kEnd, name, "", 0, 0, seconds});
    check();
    return result;
  }

  /// One of `total` pieces of the running stage is finished; from any thread.
  void progress(std::size_t total, const std::string& text) {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (observer_) observer_({Event::Kind::kProgress, stage_, text, done_, total, 0});
  }

  void warn(const std::string& text) { tell({Event::Kind::kWarning, stage_, text, 0, 0, 0}); }

  /// Writes what a stage decided (`3-shard.json`); `decided` is only called when a folder was asked for.
  template <typename Decided>
  void dump(Decided decided) {
    if (dump_folder_.empty()) return;
    write_atomically(fmt::format("{}/{}-{}.json", dump_folder_, times_.size(), stage_),
                     decided().dump(1) + "\n");
  }
  /// Writes a text beside it: `4-compile/ID.hlo`, with `_` for every slash of the name.
  void dump_text(std::string name, const std::string& text) {
    if (dump_folder_.empty()) return;
    std::replace(name.begin(), name.end(), '/', '_');
    const std::filesystem::path folder = fmt::format("{}/{}-{}", dump_folder_, times_.size() + 1, stage_);
    std::filesystem::create_directories(folder);
    write_atomically(folder / name, text);
  }

  void check() const {
    if (cancel_.requested()) throw Interrupted("interrupted");
  }
  const Json& times() const { return times_; }

 private:
  void tell(const Event& event) {
    const std::lock_guard lock(mutex_);
    if (observer_) observer_(event);
  }

  const Observer& observer_;
  const Cancel& cancel_;
  std::string dump_folder_;
  std::string stage_;
  std::mutex mutex_;
  std::size_t done_ = 0;
  Json times_ = Json::array();
};

}  // namespace aoizora
