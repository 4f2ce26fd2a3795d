// The client as its callers see it: each call becomes tasks of a reader or a writer, or commands to the master.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "client/parts.h"
#include "client/worker_pool.h"
#include "tiercel/client.h"

namespace tiercel::client {

// What a client is built from; tests put in their own.
struct Ingredients {
  std::unique_ptr<resp::Connection> connection;
  std::function<Result<std::shared_ptr<transfer::Engine>>(transfer::Engine::TicketSource)> make_engine;
  std::string host_id;
  const Clock* clock = nullptr;
  uint64_t step_bytes = 0;  // 0: as usual
};

class ClientImpl final : public Client {
 public:
  ClientImpl(const ClientOptions& options, Ingredients ingredients);
  ~ClientImpl() override;

  Status Reconnect() override;
  void Close() override;
  bool Healthy() override;
  Result<int64_t> PingMicros() override;

  Result<PutResult> Put(std::string_view key, std::span<const std::byte> value, const PutOptions& options) override;
  Result<std::optional<Buffer>> Get(std::string_view key, const GetOptions& options) override;
  Result<std::optional<uint64_t>> GetInto(std::string_view key, std::span<std::byte> memory,
                                          const GetOptions& options) override;
  Result<std::optional<Buffer>> GetRange(std::string_view key, uint64_t offset, uint64_t length,
                                         const GetOptions& options) override;
  Result<std::unique_ptr<ObjectView>> View(std::string_view key, const GetOptions& options) override;
  Result<bool> Exists(std::string_view key) override;
  Result<std::optional<uint64_t>> Size(std::string_view key) override;
  Result<std::optional<ObjectStat>> Stat(std::string_view key) override;
  Result<bool> Remove(std::string_view key) override;

  std::vector<Result<PutResult>> PutBatch(std::span<const PutItem> items, const PutOptions& options) override;
  std::vector<Result<std::optional<Buffer>>> GetBatch(std::span<const std::string_view> keys,
                                                      const GetOptions& options) override;
  std::vector<Result<std::optional<uint64_t>>> GetIntoBatch(std::span<const GetItem> items,
                                                            const GetOptions& options) override;
  std::vector<Result<std::unique_ptr<ObjectView>>> ViewBatch(std::span<const std::string_view> keys,
                                                             const GetOptions& options) override;
  std::vector<Result<bool>> ExistsBatch(std::span<const std::string_view> keys) override;
  std::vector<Result<std::optional<ObjectStat>>> StatBatch(std::span<const std::string_view> keys) override;
  std::vector<Result<bool>> RemoveBatch(std::span<const std::string_view> keys) override;
  Result<uint32_t> MatchPrefix(std::span<const std::string_view> keys) override;

  std::future<Result<PutResult>> PutAsync(std::string key, std::span<const std::byte> value,
                                          PutOptions options) override;
  std::future<Result<std::optional<Buffer>>> GetAsync(std::string key, GetOptions options) override;
  std::future<Result<std::optional<uint64_t>>> GetIntoAsync(std::string key, std::span<std::byte> memory,
                                                            GetOptions options) override;
  std::future<Result<bool>> ExistsAsync(std::string key) override;
  std::future<Result<bool>> RemoveAsync(std::string key) override;

  Result<std::unique_ptr<RegisteredBuffer>> AllocateRegistered(size_t bytes) override;
  Result<std::unique_ptr<RegisteredBuffer>> RegisterMemory(std::span<std::byte> memory) override;

  Result<std::vector<StoreStat>> Stores() override;
  Status Scan(std::string_view pattern, const std::function<bool(std::string_view key)>& visit) override;
  Result<std::string> Command(std::span<const std::string_view> arguments) override;

 private:
  enum class State : uint8_t { kIdle, kOpen, kClosed };

  Status Usable() const;  // kUnreachable before the first connect, kShutdown after Close
  Deadline CallDeadline() const { return Deadline::After(parts_.options.timeout_ms); }
  Result<resp::Reply> Call(std::span<const std::string_view> words, Control::Again again);
  // One command of two words per key, pipelined; `parse` makes the result of each reply.
  template <typename T, typename Parse>
  std::vector<Result<T>> ForEachKey(std::string_view command, std::span<const std::string_view> keys,
                                    Control::Again again, Parse&& parse);
  // Runs one task per key; a key that is not allowed gets its error without one. `task_of(i)` makes the task of
  // the i-th key, `take` the result of a task that is done.
  template <typename T, typename KeyOf, typename TaskOf, typename Take>
  std::vector<Result<T>> ReadMany(size_t count, const GetOptions& options, KeyOf&& key_of, TaskOf&& task_of,
                                  Take&& take);
  template <typename T, typename Job>
  std::future<Result<T>> Later(Job job);
  Result<uint32_t> MatchPrefixByExists(std::span<const std::string_view> keys);

  Parts parts_;
  std::function<Result<std::shared_ptr<transfer::Engine>>(transfer::Engine::TicketSource)> make_engine_;
  std::mutex connecting_;  // one Reconnect at a time
  std::atomic<State> state_{State::kIdle};
  WorkerPool workers_;  // last: joined before the rest goes
};

}  // namespace tiercel::client
