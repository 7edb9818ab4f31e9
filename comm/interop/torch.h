// LibTorch: a module's gradients, each exchanged as soon as backward() has accumulated it.
//
// Example (each rank has a module of its own, and a slice of each batch)
//   comm::TorchExchange exchange(communicator, *network);   // all begin with rank 0's parameters
//   for (auto& batch : feed.epoch(0)) {
//     optimizer.zero_grad();
//     auto loss = torch::nll_loss(network->forward(batch.image), batch.label);  // a mean
//     exchange.begin_step(batch.size());                    // samples of this rank
//     loss.backward();                                      // gradients leave one by one
//     exchange.await_all();                                 // they are the mean of all ranks
//     optimizer.step();
//   }
//
// With several backwards in a step (micro-steps), all but the last run under a pause():
//   exchange.begin_step(samples_of_all);
//   {
//     const auto pause = exchange.pause();
//     loss_of(first).backward();                            // accumulates, and exchanges nothing
//   }
//   loss_of(last).backward();
//
// A parameter to which backward() gives no gradient is empty in that step. It is left out of the
// sum, and nobody has to find it first. If it is empty on all ranks, its grad() stays as it was.
//
// Memory: the exchange makes a contiguous tensor for each gradient. From the first backward() on it
// is the parameter's grad(). If zero_grad() or the trainer has put another tensor there, or none,
// backward() is followed by one copy. Between backward() and await(), grad() belongs to the
// exchange. If the trainer changes it meanwhile, by zero_grad() for example, await() throws.
//
// LibTorch's C++ modules have no hooks before forward(): call await() with each layer there, or
// await_all() before the optimizer.
//
// Building: this header needs libtorch; Leat's libraries do not. Use find_package(Torch) and link
// ${TORCH_LIBRARIES}, built for the same ABI of the C++ library as the program.
//
// Thread and fiber safety: one thread of the rank uses the exchange and calls backward(). It is a
// plain thread: LibTorch keeps state in each thread, and wants more stack than a fiber has.
//
// Errors: backward() throws std::logic_error or std::invalid_argument, with the parameter's name,
// for a mistake of the trainer. Other errors are GradientExchange's (gradient_exchange.h).
#pragma once

#include <torch/torch.h>
// Only a libtorch that was built with CUDA has this header; others have CUDAStream.h, too.
#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
#include <c10/cuda/CUDAStream.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/dtype.h"
#include "leat/gpu/stream.h"

namespace leat::comm {

/// What becomes of a module's buffers, such as the running means of a BatchNorm.
enum class TorchBuffers : std::uint8_t {
  kRefused,   ///< the constructor throws if there are any
  kFromRoot,  ///< the constructor and broadcast_buffers() copy rank 0's to all ranks
};

/// A rank's end of the exchange of a module's gradients. The head of the file has the rules.
class TorchExchange {
 public:
  /// While a Pause exists, backward() accumulates gradients and sends nothing. The next backward()
  /// without one sends them. Must not outlive the exchange. Pauses may be nested.
  class [[nodiscard]] Pause {
   public:
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() { --exchange_.pauses_; }

   private:
    friend TorchExchange;
    explicit Pause(TorchExchange& exchange) : exchange_(exchange) { ++exchange_.pauses_; }
    TorchExchange& exchange_;
  };

  /// Collective: copies rank 0's parameters (and buffers) to all ranks, and waits. Exchanges the
  /// gradients of those that require one now, in the order of named_parameters(). All are on one
  /// device; options.device is not used. Keeps the parameters' tensors, not the module. Throws
  /// std::invalid_argument for parameters on several devices, a type that cannot be summed, and
  /// buffers that are refused; as GradientExchange's constructor and broadcast().
  TorchExchange(const Communicator& communicator, const torch::nn::Module& module,
                ExchangeOptions options = {}, TorchBuffers buffers = TorchBuffers::kRefused)
      : all_(parameters_of(module)), device_(device_of(module)) {
    if (buffers == TorchBuffers::kRefused) require_no_buffers(module);
    options.device = device_;
    std::vector<Gradient> gradients;
    gradients.reserve(all_.size());
    for (const One& one : all_) gradients.push_back(in_memory(one.name, one.gradient));
    exchange_.emplace(communicator, std::move(gradients), std::move(options));
    buffers_ = buffers_of(module);
    broadcast(frozen_and_trained(module));
    broadcast(buffers_);
    for (std::size_t i = 0; i < all_.size(); ++i) hook(i);
  }
  TorchExchange(const TorchExchange&) = delete;
  TorchExchange& operator=(const TorchExchange&) = delete;
  /// Takes its hooks off the parameters, and leaves as GradientExchange does.
  ~TorchExchange() {
    for (One& one : all_) {
      if (one.accumulator) one.accumulator->del_post_hook(one.hook);
    }
  }

  /// Begins the next step. `samples` are this rank's, in all backwards of the step; with 0 the rank
  /// calls no backward() and gets the results. Throws std::logic_error if to() has changed the type
  /// or device of a parameter since the exchange was made; as GradientExchange::begin_step().
  void begin_step(std::uint64_t samples) {
    for (const One& one : all_) {                    // then Torch has dropped the hook
      if (!one.parameter.requires_grad()) continue;  // frozen since: it is empty
      if (torch::autograd::impl::grad_accumulator(one.parameter) == one.accumulator) continue;
      throw std::logic_error("leat: TorchExchange::begin_step: \"" + one.name +
                             "\" has another type or device than when the exchange was made; "
                             "make a new one after to()");
    }
    exchange_->begin_step(samples);
    in_backward_ = samples > 0;
  }
  /// Makes backwards accumulate, and send nothing, while the result lives.
  Pause pause() { return Pause(*this); }
  /// Ends the step's backwards. A parameter without a gradient is empty. await() and await_all()
  /// call end_backward() if the trainer has not. Throws as GradientExchange::end_backward().
  void end_backward() {
    if (!in_backward_) return;
    for (std::size_t i = 0; i < all_.size(); ++i) {  // of paused backwards, not of the last one
      if (all_[i].is_held && all_[i].parameter.grad().defined()) hand_over(i);
    }
    exchange_->end_backward();
    in_backward_ = false;
  }
  /// Waits for the gradients of the layer's parameters, those of layers within it included; on a
  /// GPU, makes Torch's current stream wait. Returns whether any result has come: false before the
  /// first step, and for a layer that no rank has used. Throws std::invalid_argument for a layer
  /// with a parameter that is not the module's, std::logic_error if a gradient was changed since
  /// backward(); as GradientExchange::await().
  bool await(const torch::nn::Module& layer) {
    end_backward();
    bool any = false;
    for (const auto& item : layer.named_parameters()) {
      if (const std::optional<std::size_t> i = index_of(item.value())) {
        any = await_one(*i) || any;
      } else if (item.value().requires_grad()) {
        throw std::invalid_argument("leat: TorchExchange::await: \"" + item.key() +
                                    "\" is no parameter of the module that is exchanged");
      }
    }
    require_unchanged();
    return any;
  }
  /// await() for all parameters.
  void await_all() {
    end_backward();
    for (std::size_t i = 0; i < all_.size(); ++i) await_one(i);
    require_unchanged();
  }
  /// Collective: copies rank 0's buffers to all ranks; before an evaluation, say. Throws
  /// std::logic_error with TorchBuffers::kRefused; as GradientExchange::broadcast().
  void broadcast_buffers() {
    if (buffers_.empty()) {
      throw std::logic_error("leat: TorchExchange::broadcast_buffers: the module has no buffers");
    }
    broadcast(buffers_);
  }
  /// What was measured so far on this rank. Thread-safe.
  [[nodiscard]] ExchangeStats stats() const { return exchange_->stats(); }
  /// The number of parameters whose gradients are exchanged.
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

 private:
  struct Named {
    std::string name;
    torch::Tensor tensor;
  };
  // A pointer that shares the node. Its type depends on libtorch's version.
  using Accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()));
  struct One {
    std::string name;
    torch::Tensor parameter;
    torch::Tensor gradient;  // the memory that is exchanged
    Accumulator accumulator = {};
    std::uintptr_t hook = 0;
    bool is_held = false;      // grad() has what was not sent yet
    bool is_out = false;       // from ready() to await()
    std::int64_t version = 0;  // of the gradient's memory, by Torch's count, when it went out
  };
  struct Hook final : torch::autograd::FunctionPostHook {
    Hook(TorchExchange& of, std::size_t index) : exchange(of), i(index) {}
    torch::autograd::variable_list operator()(
        const torch::autograd::variable_list& outputs,
        const torch::autograd::variable_list& /*inputs*/) override {
      exchange.accumulated(i);
      return outputs;
    }
    TorchExchange& exchange;
    std::size_t i;
  };

  // ---- the module

  static std::vector<Named> frozen_and_trained(const torch::nn::Module& module) {
    std::vector<Named> all;
    for (const auto& item : module.named_parameters()) {
      const bool is_shared = std::any_of(all.begin(), all.end(), [&](const Named& one) {
        return one.tensor.is_same(item.value());
      });
      if (!is_shared && item.value().defined()) all.push_back({item.key(), item.value()});
    }
    return all;
  }
  static std::vector<One> parameters_of(const torch::nn::Module& module) {
    const torch::NoGradGuard no_grad;
    std::vector<One> all;
    for (const Named& one : frozen_and_trained(module)) {
      if (!one.tensor.requires_grad()) continue;
      all.push_back({.name = one.name,
                     .parameter = one.tensor,
                     .gradient = torch::zeros(one.tensor.sizes(), one.tensor.options())});
    }
    return all;
  }
  static std::vector<Named> buffers_of(const torch::nn::Module& module) {
    std::vector<Named> all;
    for (const auto& item : module.named_buffers()) {
      if (item.value().defined()) all.push_back({item.key(), item.value()});
    }
    return all;
  }
  static void require_no_buffers(const torch::nn::Module& module) {
    const std::vector<Named> buffers = buffers_of(module);
    if (buffers.empty()) return;
    throw std::invalid_argument("leat: TorchExchange: the module has buffers, \"" +
                                buffers.front().name +
                                "\" for one, and each rank would have its own; give "
                                "TorchBuffers::kFromRoot to copy rank 0's");
  }
  // None: the CPU's memory.
  static std::optional<gpu::Device> device_of(const torch::nn::Module& module) {
    std::vector<Named> all = frozen_and_trained(module);
    for (Named& one : buffers_of(module)) all.push_back(std::move(one));
    for (const Named& one : all) {
      if (one.tensor.device() == all.front().tensor.device()) continue;
      throw std::invalid_argument("leat: TorchExchange: \"" + one.name + "\" is on " +
                                  one.tensor.device().str() + ", and \"" + all.front().name +
                                  "\" on " + all.front().tensor.device().str() +
                                  "; an exchange is of one device");
    }
    if (all.empty() || all.front().tensor.is_cpu()) return std::nullopt;
    return gpu::open(all.front().tensor.device().str());  // "cuda:0"
  }

  static DType dtype_of(const std::string& name, torch::ScalarType type) {
    switch (type) {
      case torch::kFloat32: return DType::kFloat32;
      case torch::kFloat64: return DType::kFloat64;
      case torch::kFloat16: return DType::kFloat16;
      case torch::kBFloat16: return DType::kBFloat16;
      case torch::kInt64: return DType::kInt64;
      case torch::kInt32: return DType::kInt32;
      case torch::kInt16: return DType::kInt16;
      case torch::kInt8: return DType::kInt8;
      case torch::kUInt8: return DType::kUint8;
      case torch::kBool: return DType::kBool;
      default: break;
    }
    throw std::invalid_argument("leat: TorchExchange: \"" + name + "\" is of type " +
                                c10::toString(type) + ", which cannot be exchanged");
  }
  static Gradient in_memory(const std::string& name, const torch::Tensor& contiguous) {
    return {.name = name,
            .data = gpu::DeviceSpan(contiguous.data_ptr(), contiguous.nbytes()),
            .dtype = dtype_of(name, contiguous.scalar_type())};
  }

  [[nodiscard]] std::optional<std::size_t> index_of(const torch::Tensor& parameter) const {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].parameter.is_same(parameter)) return i;
    }
    return std::nullopt;
  }

  // ---- the exchange

  // Torch's current stream on the device.
  [[nodiscard]] gpu::StreamRef stream() const {
#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
    const c10::DeviceIndex index = all_.front().gradient.device().index();
    void* const current = c10::cuda::getCurrentCUDAStream(index).stream();
    if (current == nullptr) return gpu::StreamRef::legacy(*device_);
    return gpu::StreamRef::from_native(*device_, current);
#else
    throw std::logic_error("leat: this libtorch was built without CUDA: it has no streams on " +
                           device_->name());
#endif
  }

  // Copies rank 0's tensors to all ranks.
  void broadcast(const std::vector<Named>& tensors) {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> contiguous;
    std::vector<Gradient> all;
    for (const Named& one : tensors) {
      contiguous.push_back(one.tensor.detach().contiguous());
      all.push_back(in_memory(one.name, contiguous.back()));
    }
    if (device_ && !all_.empty()) torch::cuda::synchronize(all_.front().gradient.get_device());
    exchange_->broadcast(all, 0);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      torch::Tensor tensor = tensors[i].tensor.detach();
      if (tensor.data_ptr() != contiguous[i].data_ptr()) tensor.copy_(contiguous[i]);
    }
  }

  void hook(std::size_t i) {
    One& one = all_[i];
    one.accumulator = torch::autograd::impl::grad_accumulator(one.parameter);
    one.hook = one.accumulator->add_post_hook(std::make_unique<Hook>(*this, i));
  }

  // backward() has added to the gradient.
  void accumulated(std::size_t i) {
    One& one = all_[i];
    one.is_held = pauses_ > 0;
    if (one.is_held) return;
    if (!in_backward_) {
      throw std::logic_error("leat: TorchExchange: \"" + one.name +
                             "\" has a gradient outside a step; call begin_step() before "
                             "backward(), or hold a pause()");
    }
    hand_over(i);
  }

  void hand_over(std::size_t i) {
    const torch::NoGradGuard no_grad;
    One& one = all_[i];
    one.is_held = false;  // also if it is refused: it is empty then
    if (one.is_out) {
      throw std::logic_error("leat: TorchExchange: \"" + one.name +
                             "\" has another gradient before the last one was awaited; hold a "
                             "pause() for all but the last backward() of a step");
    }
    const torch::Tensor& gradient = one.parameter.grad();
    if (gradient.layout() != torch::kStrided) {
      throw std::invalid_argument("leat: TorchExchange: the gradient of \"" + one.name +
                                  "\" is sparse; only dense ones are exchanged");
    }
    if (gradient.data_ptr() != one.gradient.data_ptr() || !gradient.is_contiguous()) {
      one.gradient.copy_(gradient);
      one.parameter.mutable_grad() = one.gradient;
    }
    device_ ? exchange_->ready(i, stream()) : exchange_->ready(i);
    one.is_out = true;
    one.version = one.gradient._version();
  }

  bool await_one(std::size_t i) {
    One& one = all_[i];
    const bool any = device_ ? exchange_->await(i, stream()) : exchange_->await(i);
    if (one.is_out && one.gradient._version() != one.version) changed_ = i;
    if (any) one.parameter.mutable_grad() = one.gradient;
    one.is_out = false;
    return any;
  }

  void require_unchanged() {
    const std::optional<std::size_t> i = std::exchange(changed_, std::nullopt);
    if (!i) return;
    throw std::logic_error("leat: TorchExchange: the gradient of \"" + all_[*i].name +
                           "\" was changed between backward() and await(), by zero_grad() or "
                           "another backward(), say; await it before");
  }

  std::vector<One> all_;
  std::vector<Named> buffers_;
  std::optional<gpu::Device> device_;
  std::optional<GradientExchange> exchange_;
  bool in_backward_ = false;
  int pauses_ = 0;
  std::optional<std::size_t> changed_;  // one that the trainer has changed under way
};

}  // namespace leat::comm
