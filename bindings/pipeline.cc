#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>

#include "aoizora/plan_service.h"
#include "aoizora/report/plan_text.h"
#include "bindings.h"

namespace aoizora::bindings {
namespace {

const char* kind_name(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kBegin:
      return "begin";
    case Event::Kind::kProgress:
      return "progress";
    case Event::Kind::kEnd:
      return "end";
    case Event::Kind::kWarning:
      return "warning";
  }
  return "";
}

Observer observer_of(const nb::callable& on_event) {
  return [&on_event](const Event& event) {
    const nb::gil_scoped_acquire acquire;
    on_event(kind_name(event.kind), event.stage, event.text, event.done, event.total, event.seconds);
  };
}

std::string plan(const std::string& request, const nb::callable& on_event) {
  const Observer observer = observer_of(on_event);
  const nb::gil_scoped_release release;
  return plan_service(request, observer);
}

std::string candidates(const std::string& request, const nb::callable& on_event) {
  const Observer observer = observer_of(on_event);
  const nb::gil_scoped_release release;
  return candidates_service(request, observer);
}

std::string plan_text(const std::string& text, const std::string& file, bool colour, std::size_t candidates,
                      bool verbose) {
  const Json document = parse_json(text, file);
  return report::plan_text(plan::from_json(JsonView(document, file)), {colour, candidates, verbose});
}

std::string check_plan(const std::string& path) { return plan::to_json(plan::read(path)).dump(); }

}  // namespace

void bind_pipeline(nb::module_& module) {
  using namespace nb::literals;
  module.def("plan", &plan, "request"_a, "on_event"_a);
  module.def("candidates", &candidates, "request"_a, "on_event"_a);
  module.def("plan_text", &plan_text, "text"_a, "file"_a, "colour"_a, "candidates"_a, "verbose"_a);
  module.def("check_plan", &check_plan, "path"_a);
}

}  // namespace aoizora::bindings
