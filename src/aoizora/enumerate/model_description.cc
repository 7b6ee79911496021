#include "aoizora/enumerate/model_description.h"

namespace aoizora::enumerate {
namespace {

ModelDescription::Tensor tensor_from_json(const JsonView& json) {
  ModelDescription::Tensor tensor;
  tensor.name = json.at("name").string();
  tensor.kind = json.at("kind").string();
  tensor.dtype = json.at("dtype").string();
  for (const JsonView& size : json.at("shape").items()) tensor.shape.push_back(size.integer());
  for (const JsonView& axis : json.at("axes").items()) {
    tensor.axes.push_back(axis.is_null() ? std::string() : axis.string());
  }
  if (tensor.axes.size() != tensor.shape.size()) json.fail("as many axes as dimensions");
  return tensor;
}

}  // namespace

ModelDescription description_from_json(const JsonView& json) {
  ModelDescription model;
  model.raw = json.raw();
  model.name = json.at("name").string();
  model.options = json.at("options").raw();
  model.fingerprint = json.at("fingerprint").string();
  for (const auto& [axis, sizes] : json.at("axes").members()) {
    for (const JsonView& size : sizes.items()) model.axes[axis].push_back(size.integer());
  }
  if (const auto padded = json.find("padded_axes")) {
    for (const JsonView& axis : padded->items()) model.padded_axes.push_back(axis.string());
  }
  for (const JsonView& tensor : json.at("tensors").items()) model.tensors.push_back(tensor_from_json(tensor));
  const JsonView attention = json.at("attention");
  for (const JsonView& strategy : attention.at("strategies").items()) {
    model.attention_strategies.push_back(strategy.string());
  }
  model.heads = attention.at("heads").integer();
  model.kv_heads = attention.at("kv_heads").integer();
  model.tokens = json.at("tokens").integer();
  model.padded_tokens = json.at("padded_tokens").integer();
  model.flops_per_step = json.at("flops_per_step").number();
  return model;
}

}  // namespace aoizora::enumerate
