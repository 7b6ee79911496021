#include <gtest/gtest.h>

#include <filesystem>

#include "../../../fuzz/fuzz_reader.h"
#include "aoizora/base/file.h"

/// The fuzzers' seed corpora, and every cut of each, go through the same checks as in the fuzzers.
namespace aoizora::fuzz {
namespace {

void run_corpus(const std::string& folder, void (*one)(std::string_view)) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(AOIZORA_SOURCE_DIR) + "/fuzz/corpus/" + folder)) {
    files.push_back(entry.path());
  }
  ASSERT_GE(files.size(), 2u);
  for (const auto& path : files) {
    SCOPED_TRACE(path.filename().string());
    const std::string text = read_text(path);
    for (std::size_t size = 0; size <= text.size(); ++size) {
      ASSERT_NO_THROW(one(std::string_view(text).substr(0, size))) << "first " << size << " bytes";
    }
    for (std::size_t at = 0; at < text.size(); ++at) {  // one byte replaced
      std::string changed = text;
      changed[at] = "{}()[]<>=,\"%#0 \n"[at % 16];
      ASSERT_NO_THROW(one(changed)) << "byte " << at;
    }
  }
}

TEST(FuzzCorpus, Hlo) { run_corpus("hlo", one_hlo); }
TEST(FuzzCorpus, StableHlo) { run_corpus("stablehlo", one_stablehlo); }
TEST(FuzzCorpus, Groups) { run_corpus("groups", one_groups); }

}  // namespace
}  // namespace aoizora::fuzz
