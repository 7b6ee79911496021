#include "aoizora/ir/storage.h"

namespace aoizora::ir {

Program read_stablehlo(std::string, std::string file) {
  throw UserError(std::move(file), {1, 1}, "MLIR is not read yet");
}

}  // namespace aoizora::ir
