#include "fuzz_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  aoizora::fuzz::one_stablehlo({reinterpret_cast<const char*>(data), size});
  return 0;
}
