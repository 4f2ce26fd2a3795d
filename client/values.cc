// Puts, gets and views: each is one task per key for a writer or a reader.
#include <optional>

#include "client/client_impl.h"
#include "client/messages.h"
#include "client/reader.h"
#include "client/writer.h"

namespace tiercel::client {

template <typename T, typename KeyOf, typename TaskOf, typename Take>
std::vector<Result<T>> ClientImpl::ReadMany(size_t count, const GetOptions& options, KeyOf&& key_of, TaskOf&& task_of,
                                            Take&& take) {
  std::vector<Result<T>> results;
  results.reserve(count);
  if (Status usable = Usable(); !usable.ok()) {
    for (size_t i = 0; i < count; ++i) results.push_back(usable.error());
    return results;
  }
  std::vector<Status> allowed;
  std::vector<ReadTask> tasks;
  allowed.reserve(count);
  tasks.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (allowed.emplace_back(CheckKey(key_of(i))).ok()) tasks.push_back(task_of(i));
  }
  Reader(&parts_, options).Run(tasks);
  size_t next = 0;
  for (const Status& status : allowed) {
    status.ok() ? results.push_back(take(tasks[next++])) : results.push_back(status.error());
  }
  return results;
}

Result<std::optional<Buffer>> ClientImpl::Get(std::string_view key, const GetOptions& options) {
  return std::move(GetBatch({&key, 1}, options)[0]);
}

std::vector<Result<std::optional<Buffer>>> ClientImpl::GetBatch(std::span<const std::string_view> keys,
                                                                const GetOptions& options) {
  return ReadMany<std::optional<Buffer>>(
      keys.size(), options, [&](size_t i) { return keys[i]; }, [&](size_t i) { return ReadTask::Whole(keys[i]); },
      [](ReadTask& task) { return task.TakeBuffer(); });
}

Result<std::optional<uint64_t>> ClientImpl::GetInto(std::string_view key, std::span<std::byte> memory,
                                                    const GetOptions& options) {
  const GetItem item{key, memory};
  return std::move(GetIntoBatch({&item, 1}, options)[0]);
}

std::vector<Result<std::optional<uint64_t>>> ClientImpl::GetIntoBatch(std::span<const GetItem> items,
                                                                      const GetOptions& options) {
  return ReadMany<std::optional<uint64_t>>(
      items.size(), options, [&](size_t i) { return items[i].key; },
      [&](size_t i) { return ReadTask::Into(items[i].key, items[i].memory); },
      [](ReadTask& task) { return task.TakeSize(); });
}

Result<std::optional<Buffer>> ClientImpl::GetRange(std::string_view key, uint64_t offset, uint64_t length,
                                                   const GetOptions& options) {
  auto results = ReadMany<std::optional<Buffer>>(
      1, options, [&](size_t) { return key; }, [&](size_t) { return ReadTask::Range(key, offset, length); },
      [](ReadTask& task) { return task.TakeBuffer(); });
  return std::move(results[0]);
}

Result<std::unique_ptr<ObjectView>> ClientImpl::View(std::string_view key, const GetOptions& options) {
  return std::move(ViewBatch({&key, 1}, options)[0]);
}

std::vector<Result<std::unique_ptr<ObjectView>>> ClientImpl::ViewBatch(std::span<const std::string_view> keys,
                                                                       const GetOptions& options) {
  return ReadMany<std::unique_ptr<ObjectView>>(
      keys.size(), options, [&](size_t i) { return keys[i]; }, [&](size_t i) { return ReadTask::View(keys[i]); },
      [](ReadTask& task) { return task.TakeView(); });
}

Result<PutResult> ClientImpl::Put(std::string_view key, std::span<const std::byte> value, const PutOptions& options) {
  const PutItem item{key, value};
  return std::move(PutBatch({&item, 1}, options)[0]);
}

std::vector<Result<PutResult>> ClientImpl::PutBatch(std::span<const PutItem> items, const PutOptions& options) {
  std::vector<Result<PutResult>> results;
  results.reserve(items.size());
  std::vector<WriteTask> tasks;
  tasks.reserve(items.size());
  Status usable = Usable();
  std::vector<std::optional<Error>> refused(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    Status allowed = usable.ok() ? CheckKey(items[i].key) : usable;
    if (allowed.ok()) allowed = CheckValueSize(items[i].value.size());
    allowed.ok() ? (void)tasks.emplace_back(items[i].key, items[i].value)
                 : (void)refused[i].emplace(std::move(allowed).error());
  }
  if (!tasks.empty()) Writer(&parts_, options).Run(tasks);
  size_t next = 0;
  for (std::optional<Error>& error : refused) {
    error ? results.push_back(std::move(*error)) : results.push_back(tasks[next++].TakeResult());
  }
  return results;
}

}  // namespace tiercel::client
