// PyTorch's side of zico: what takes C++.
//
// PyTorch's allocator of CPU memory is a class of c10, and its error for a lack of memory is an exception of c10:
// neither can be had from C. All else is in zico's library, whose functions are looked up in it, not linked. Compiled on first
// use with the headers of the PyTorch that runs (zico/torch/_build.py).

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace {

// zico.h has what they do.
struct Library {
  void* (*malloc)(size_t size, int device, void* stream);
  void (*free)(void* block, size_t size, int device, void* stream);
  uint64_t (*block_size)(const void* block);
  int (*record_use)(void* block, void* stream);
  int (*is_forked)();
  const char* (*last_error)();
  int (*last_status)();
};

constexpr int kNotLive = 3;      // ZICO_NOT_LIVE
constexpr int kOutOfMemory = 5;  // ZICO_OUT_OF_MEMORY

Library zico;
// Bytes of the blocks that are live, for the profiler.
std::atomic<int64_t> live{0};

// Messages are made without streams of C++: where a compiler links a C++ library of its own into this one, those have no
// locale and end the process.
[[noreturn]] void refuse(size_t size) {
  const std::string asked = std::to_string(size) + " bytes: " + zico.last_error();
  if (zico.last_status() == kOutOfMemory) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "zico: out of memory. Tried to allocate " + asked);
  }
  TORCH_CHECK(false, "zico: cannot allocate " + asked);
}

void report(void* block, int64_t size, c10::Device device) {
  const int64_t total = live.fetch_add(size, std::memory_order_relaxed) + size;
  if (c10::memoryProfilingEnabled()) {
    c10::reportMemoryUsageToProfiler(block, size, total, total, device);
  }
}

void* take(size_t size, c10::Device device, void* stream) {
  void* block = zico.malloc(size, device.has_index() ? device.index() : 0, stream);
  if (block == nullptr) {
    refuse(size);
  }
  report(block, static_cast<int64_t>(size), device);
  return block;
}

// The allocator of CPU memory. Small tensors stay with PyTorch's own: on a GPU they would not be on the device either.
class Host final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    if (size < threshold.load(std::memory_order_relaxed) || zico.is_forked()) {
      return own->allocate(size);
    }
    void* block = take(size, c10::Device(c10::DeviceType::CPU), nullptr);
    return {block, block, &drop, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &drop; }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  // PyTorch's own allocator.
  c10::Allocator* own = nullptr;
  // From so many bytes on zico allocates; SIZE_MAX while it is off.
  std::atomic<size_t> threshold{SIZE_MAX};

 private:
  // Also frees what the other allocator has allocated, for whoever uses raw_allocate.
  static void drop(void* block);
};

Host host;

void Host::drop(void* block) {
  if (block == nullptr) {
    return;
  }
  const uint64_t size = zico.block_size(block);
  if (size == 0) {
    host.own->raw_deleter()(block);
  } else if (!zico.is_forked()) {
    report(block, -static_cast<int64_t>(size), c10::Device(c10::DeviceType::CPU));
    zico.free(block, size, 0, nullptr);
  }
}

constexpr char kNoPools[] =
    "zico: CUDA graphs and torch.cuda.MemPool keep memory to themselves, and while zico is the allocator none can: run "
    "without them (torch.compile: in a mode without CUDA graphs), or without zico";

// The device of the job.
int cuda_device = 0;

// A pool of PyTorch's own is asked for: to capture a graph. What a graph has used must not be anybody else's between two
// launches, and zico would give it away. (A stream is a pointer.)
void refuse_pool(int /*device*/, std::pair<unsigned long long, unsigned long long> /*pool*/,
                 std::function<bool(void*)> /*filter*/) {
  TORCH_CHECK(false, kNoPools);
}

template <typename Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

extern "C" {

// Looks zico's functions up in its library. False, and dlerror has the reason, if they are not there.
bool zico_shim_bind(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && find(library, "zico_malloc", &zico.malloc) &&
         find(library, "zico_free", &zico.free) &&
         find(library, "zico_block_size", &zico.block_size) &&
         find(library, "zico_record_use", &zico.record_use) &&
         find(library, "zico_is_forked", &zico.is_forked) &&
         find(library, "zico_last_error", &zico.last_error) &&
         find(library, "zico_last_status", &zico.last_status);
}

// CPU memory comes from zico from now on, from `threshold` bytes on. SIZE_MAX is nothing: what is there stays, and is
// freed as before.
void zico_shim_host(size_t threshold) {
  if (host.own == nullptr) {
    host.own = c10::GetAllocator(c10::DeviceType::CPU);
    c10::SetAllocator(c10::DeviceType::CPU, &host, 1);
  }
  host.threshold.store(threshold, std::memory_order_relaxed);
}

// For torch.cuda.memory.CUDAPluggableAllocator. No bytes are a null pointer: PyTorch keeps blocks by their
// addresses. Any other null pointer it would take for memory.
void* zico_shim_cuda_malloc(size_t size, int device, void* stream) {
  if (size == 0) {
    return nullptr;
  }
  TORCH_CHECK(device == cuda_device, "zico: this job has memory of cuda:" + std::to_string(cuda_device) +
                                         ", not of cuda:" + std::to_string(device));
  return take(size, c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device)), stream);
}

void zico_shim_cuda_free(void* block, size_t size, int device, void* stream) {
  if (block == nullptr) {
    return;
  }
  const c10::Device where(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device));
  report(block, -static_cast<int64_t>(size), where);
  zico.free(block, size, device, stream);
}

// Tensor.record_stream. What is not zico's is nothing to do, as for PyTorch's own allocator: memory of other processes.
void zico_shim_cuda_record_stream(void* block, void* stream) {
  if (block != nullptr) {
    const int status = zico.record_use(block, stream);
    TORCH_CHECK(status == 0 || status == kNotLive, std::string("zico: record_stream: ") + zico.last_error());
  }
}

// For set_begin_allocate_to_pool.
void* zico_shim_cuda_pool() { return reinterpret_cast<void*>(&refuse_pool); }

const char* zico_shim_cuda_no_pools() { return kNoPools; }

// The device of the job; CUDA memory of others is refused.
void zico_shim_cuda_device(int device) { cuda_device = device; }

}  // extern "C"
