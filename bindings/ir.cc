#include <nanobind/stl/string.h>

#include "aoizora/base/file.h"
#include "aoizora/ir/inspect.h"
#include "aoizora/ir/printer.h"
#include "bindings.h"

namespace aoizora::bindings {
namespace {

// A dump need not be valid UTF-8, so texts cross as bytes.
std::string string_of(const nb::bytes& data) { return {data.c_str(), data.size()}; }

nb::bytes read_bytes(const std::string& path) {
  const std::string text = [&] {
    const nb::gil_scoped_release release;
    return read_text(path);
  }();
  return nb::bytes(text.data(), text.size());
}

const char* text_form(const nb::bytes& data) {
  switch (ir::text_form({data.c_str(), data.size()})) {
    case ir::TextForm::kHlo:
      return "hlo";
    case ir::TextForm::kGenericMlir:
      return "generic_mlir";
    case ir::TextForm::kPrettyMlir:
      return "pretty_mlir";
    case ir::TextForm::kMlirBytecode:
      return "mlir_bytecode";
    case ir::TextForm::kBinary:
      return "binary";
  }
  return "";
}

std::string inspect(const nb::bytes& data, const std::string& file, bool as_json) {
  std::string text = string_of(data);
  const nb::gil_scoped_release release;
  const ir::Program program = ir::read_program(std::move(text), file);
  if (!as_json) return ir::inspect_text(program);
  // Names with bytes that are no UTF-8 are shown with a replacement character.
  return ir::inspect_json(program).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::string program_json(const nb::bytes& data, const std::string& file) {
  std::string text = string_of(data);
  const nb::gil_scoped_release release;
  const ir::Program program = ir::read_program(std::move(text), file);
  return ir::program_json(program).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

nb::bytes print_hlo(const nb::bytes& data, const std::string& file) {
  const std::string text = ir::print_hlo(ir::read_program(string_of(data), file));
  return nb::bytes(text.data(), text.size());
}

std::size_t read_only(const nb::bytes& data, const std::string& file) {
  return ir::read_program(string_of(data), file).computations.size();
}

}  // namespace

void bind_ir(nb::module_& module) {
  using namespace nb::literals;
  module.def("read_bytes", &read_bytes, "path"_a);
  module.def("text_form", &text_form, "data"_a);
  module.def("inspect", &inspect, "data"_a, "file"_a, "as_json"_a);
  module.def("program_json", &program_json, "data"_a, "file"_a);
  module.def("read_only", &read_only, "data"_a, "file"_a);
  module.def("print_hlo", &print_hlo, "data"_a, "file"_a);
}

}  // namespace aoizora::bindings
