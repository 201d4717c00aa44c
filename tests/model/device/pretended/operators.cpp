// Operators of LibTorch on the pretended GPU: those of the CPU, over the device's memory.
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/TensorFactories.h>
#include <torch/library.h>

#include "model/device/pretended/streams.hpp"
#include "model/device/pretended/tensors.hpp"

namespace hanse::pretended {

namespace {

using torch::jit::Stack;

// Calls `change` with every tensor of an argument, and puts what it returns in its place.
template <class Change>
void change_tensors(c10::IValue& value, const Change& change) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = change(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& one : value.toTensorVector()) {
      list.push_back(one.defined() ? change(one) : one);
    }
    value = list;
  } else if (value.isList() &&
             value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<c10::optional<at::Tensor>> list;
    for (const c10::IValue& one : value.toListRef()) {
      const bool is_one = one.isTensor() && one.toTensor().defined();
      list.push_back(is_one ? c10::optional<at::Tensor>(change(one.toTensor())) : c10::nullopt);
    }
    value = list;
  } else if (value.isDevice()) {
    value = c10::Device(at::kCPU);
  }
}

// The arguments, with the same memory for the CPU, which may give memory to those that have none.
Stack on_host(Stack arguments) {
  for (c10::IValue& one : arguments) {
    change_tensors(one, [](const at::Tensor& t) {
      if (!is_here(t)) return t;
      return t.numel() > 0 ? host_view(t)
                           : at::empty(t.sizes(), at::TensorOptions(t.scalar_type()));
    });
  }
  return arguments;
}

Stack call_on_cpu(const c10::OperatorHandle& op, const Stack& arguments) {
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;
  const Stack kept = on_host(arguments);  // LibTorch drops them before it reads what is returned
  Stack stack = kept;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  return stack;
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// One call of an operator.
struct Call {
  c10::OperatorHandle op;
  Stack arguments;
  std::vector<const void*> written;  // places of tensors on the device
  bool has_empty_output = false;     // which gets its memory
  std::optional<int> ordinal = {};   // of the GPU that has the tensors

  Call(const c10::OperatorHandle& handle, Stack* stack) : op(handle) {
    const auto& schema = op.schema();
    const auto n = static_cast<std::ptrdiff_t>(schema.arguments().size());
    arguments.assign(stack->end() - n, stack->end());
    stack->resize(stack->size() - static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < arguments.size(); ++i) look_at(arguments[i], schema.arguments()[i]);
  }

  const std::string& name() const { return op.schema().name(); }

  // All that it returns is what it was given.
  bool is_in_place() const {
    const auto& schema = op.schema();
    return !written.empty() &&
           std::ranges::all_of(schema.returns(), [](const auto& one) { return writes(one); });
  }

  // Those, in their order.
  Stack outputs() const {
    Stack found;
    for (std::size_t i = 0; i < arguments.size() && found.size() < op.schema().returns().size();
         ++i) {
      if (writes(op.schema().arguments()[i])) found.push_back(arguments[i]);
    }
    return found;
  }

 private:
  void look_at(c10::IValue& value, const c10::Argument& argument) {
    const bool is_output = writes(argument);
    c10::IValue kept = value;
    change_tensors(kept, [&](const at::Tensor& t) {
      if (is_here(t)) {
        const int own = t.device().index();
        TORCH_CHECK(ordinal.value_or(own) == own,
                    "Expected all tensors to be on the same device: ", name(),
                    " has tensors of two GPUs");
        ordinal = own;
        if (is_output) written.push_back(t.data_ptr());
        has_empty_output |= is_output && t.numel() == 0;
        return t;
      }
      // A number is read when the operator starts, and indices are sent.
      TORCH_CHECK(
          t.dim() == 0 || name().starts_with("aten::index") || name().starts_with("aten::_index"),
          "Expected all tensors to be on the same device: ", name(), " has one of the host");
      return t.dim() == 0 ? t.clone() : t;
    });
    if (!kept.isDevice()) value = kept;
  }
};

// A result of the CPU, on the device: a copy, or a view of what was given.
at::Tensor brought(const at::Tensor& result, const Stack& arguments) {
  const Memory& memory = Device::get().memory;
  std::byte* const place = result.numel() > 0 ? memory.device(result.data_ptr()) : nullptr;
  if (place == nullptr) return copy_here(result);
  std::optional<at::Tensor> view;
  for (c10::IValue one : arguments) {
    change_tensors(one, [&](const at::Tensor& t) {
      if (is_here(t) && !view && memory.block_of(t.data_ptr()) == memory.block_of(place)) {
        const auto* first = static_cast<const std::byte*>(t.storage().data());
        view = at::native::as_strided_tensorimpl(
            t, result.sizes(), result.strides(),
            (place - first) / static_cast<std::ptrdiff_t>(t.element_size()));
      }
      return t;
    });
  }
  TORCH_CHECK(view.has_value(), "the pretended GPU: a result lies in memory of no argument");
  return *view;
}

// What results hold is written into `made` again.
void bring_again(const Stack& results, const Stack& made) {
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!made[i].isTensor() || !made[i].toTensor().defined()) continue;
    const at::Tensor& from = results[i].toTensor();
    const bool is_there = from.numel() == 0 || Device::get().memory.device(from.data_ptr());
    if (!is_there) host_view(made[i].toTensor()).copy_(from);
  }
}

// Runs it at once, and returns what it made: tensors of its own, or the outputs that it was given.
Stack make_results(const Call& call) {
  Device& device = Device::get();
  Stack made = call.is_in_place() ? call.outputs() : Stack();
  device.start_at_once(
      [&] {
        Stack results = call_on_cpu(call.op, call.arguments);
        if (call.is_in_place()) {
          for (std::size_t i = 0; i < made.size(); ++i) {
            give_shape(made[i].toTensor(), results[i].toTensor().sizes());
          }
          return bring_again(results, made);
        }
        for (c10::IValue& one : results) {
          change_tensors(one, [&](const at::Tensor& t) { return brought(t, call.arguments); });
        }
        made = std::move(results);
      },
      call.written);
  if (auto& recording = device.stream().recording) {
    recording->graph.tasks.push_back([op = call.op, arguments = call.arguments, made] {
      bring_again(call_on_cpu(op, arguments), made);
    });
  }
  return made;
}

// They bring numbers to the host.
bool is_told(const std::string& name) {
  static const std::set<std::string> names{"aten::_local_scalar_dense",
                                           "aten::equal",
                                           "aten::nonzero",
                                           "aten::is_nonzero",
                                           "aten::masked_select",
                                           "aten::_unique2",
                                           "aten::unique_dim",
                                           "aten::repeat_interleave",
                                           "aten::is_set_to"};
  return names.contains(name);
}

void call_operator(const c10::OperatorHandle& op, Stack* stack) {
  Call call(op, stack);
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  const OrdinalScope scope(call.ordinal.value_or(current_ordinal()));
  if (is_told(call.name())) {
    device.refuse_in_recording(call.name());
    ++device.counts.downloads;
    device.wait();
  }
  if (!device.stream().recording) ++device.counts.launches;
  if (call.is_in_place() && !call.has_empty_output) {
    device.start([op = call.op, arguments = call.arguments] { call_on_cpu(op, arguments); },
                 call.written);
    const Stack outputs = call.outputs();
    stack->insert(stack->end(), outputs.begin(), outputs.end());
    return;
  }
  const Stack made = make_results(call);
  stack->insert(stack->end(), made.begin(), made.end());
}

c10::OperatorHandle named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

void call_convolution(const c10::OperatorHandle&, Stack* stack) {
  call_operator(named("aten::convolution"), stack);
}

// The bias has as many values as the output has channels.
void call_convolution_backward(const c10::OperatorHandle&, Stack* stack) {
  const auto weight = (stack->end() - 8)->toTensor();
  const bool is_transposed = (stack->end() - 4)->toBool();
  const int64_t groups = (stack->end() - 2)->toInt();
  const int64_t channels = is_transposed ? weight.size(1) * groups : weight.size(0);
  stack->insert(stack->end() - 7, c10::IValue(std::vector<int64_t>{channels}));
  call_operator(named("aten::convolution_backward"), stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&call_operator>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("convolution_overrideable",
               torch::CppFunction::makeFromBoxedFunction<&call_convolution>());
  library.impl("convolution_backward_overrideable",
               torch::CppFunction::makeFromBoxedFunction<&call_convolution_backward>());
}

}  // namespace

}  // namespace hanse::pretended
