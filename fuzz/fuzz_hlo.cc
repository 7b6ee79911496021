#include "fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  aoizora::fuzz::one_hlo({reinterpret_cast<const char*>(data), size});
  return 0;
}
