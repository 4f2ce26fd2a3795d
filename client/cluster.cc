// The cluster, memory and futures.
#include "client/client_impl.h"
#include "client/messages.h"

namespace tiercel::client {
namespace {

// Memory that came from the engine. Shares the engine, so that it may outlive the client.
class EngineMemory final : public RegisteredBuffer {
 public:
  EngineMemory(std::shared_ptr<transfer::Engine> engine, std::span<std::byte> memory)
      : engine_(std::move(engine)), memory_(memory) {}
  ~EngineMemory() override { engine_->FreeRegistered(memory_); }
  std::span<std::byte> span() override { return memory_; }

 private:
  const std::shared_ptr<transfer::Engine> engine_;
  const std::span<std::byte> memory_;
};

// The caller's memory, registered as long as this lives.
class CallerMemory final : public RegisteredBuffer {
 public:
  CallerMemory(std::shared_ptr<transfer::Engine> engine, std::unique_ptr<transfer::Registration> registration,
               std::span<std::byte> memory)
      : engine_(std::move(engine)), registration_(std::move(registration)), memory_(memory) {}
  std::span<std::byte> span() override { return memory_; }

 private:
  const std::shared_ptr<transfer::Engine> engine_;
  const std::unique_ptr<transfer::Registration> registration_;  // released before the engine
  const std::span<std::byte> memory_;
};

}  // namespace

Result<std::unique_ptr<RegisteredBuffer>> ClientImpl::AllocateRegistered(size_t bytes) {
  TIERCEL_TRY(Usable());
  if (bytes == 0) return Error(ErrorCode::kInvalid, "registered memory has at least one byte");
  TIERCEL_ASSIGN(std::span<std::byte> memory, parts_.engine->AllocateRegistered(bytes));
  return std::unique_ptr<RegisteredBuffer>(std::make_unique<EngineMemory>(parts_.engine, memory));
}

Result<std::unique_ptr<RegisteredBuffer>> ClientImpl::RegisterMemory(std::span<std::byte> memory) {
  TIERCEL_TRY(Usable());
  if (memory.empty()) return Error(ErrorCode::kInvalid, "registered memory has at least one byte");
  TIERCEL_ASSIGN(auto registration, parts_.engine->Register({&memory, 1}));
  return std::unique_ptr<RegisteredBuffer>(
      std::make_unique<CallerMemory>(parts_.engine, std::move(registration), memory));
}

Result<std::vector<StoreStat>> ClientImpl::Stores() {
  TIERCEL_TRY(Usable());
  return parts_.directory->Ask(CallDeadline());
}

Result<std::string> ClientImpl::Command(std::span<const std::string_view> arguments) {
  if (arguments.empty()) return Error(ErrorCode::kInvalid, "no command");
  TIERCEL_ASSIGN(resp::Reply reply, Call(arguments, Control::Again::kNo));
  if (reply.is_error()) return reply.ToError();
  return ReplyText(reply);
}

// ---- futures

template <typename T, typename Job>
std::future<Result<T>> ClientImpl::Later(Job job) {
  std::promise<Result<T>> promise;
  std::future<Result<T>> future = promise.get_future();
  if (Status usable = Usable(); !usable.ok()) {
    promise.set_value(std::move(usable).error());
    return future;
  }
  auto task = [promise = std::move(promise), job = std::move(job)]() mutable { promise.set_value(job()); };
  if (workers_.Run(std::move(task))) return future;
  std::promise<Result<T>> refused;
  refused.set_value(Error(ErrorCode::kRetry, "too many calls wait for the client's threads"));
  return refused.get_future();
}

std::future<Result<PutResult>> ClientImpl::PutAsync(std::string key, std::span<const std::byte> value,
                                                    PutOptions options) {
  return Later<PutResult>(
      [this, key = std::move(key), value, options = std::move(options)] { return Put(key, value, options); });
}

std::future<Result<std::optional<Buffer>>> ClientImpl::GetAsync(std::string key, GetOptions options) {
  return Later<std::optional<Buffer>>([this, key = std::move(key), options] { return Get(key, options); });
}

std::future<Result<std::optional<uint64_t>>> ClientImpl::GetIntoAsync(std::string key, std::span<std::byte> memory,
                                                                      GetOptions options) {
  return Later<std::optional<uint64_t>>(
      [this, key = std::move(key), memory, options] { return GetInto(key, memory, options); });
}

std::future<Result<bool>> ClientImpl::ExistsAsync(std::string key) {
  return Later<bool>([this, key = std::move(key)] { return Exists(key); });
}

std::future<Result<bool>> ClientImpl::RemoveAsync(std::string key) {
  return Later<bool>([this, key = std::move(key)] { return Remove(key); });
}

}  // namespace tiercel::client
