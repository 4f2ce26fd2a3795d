// Questions about keys that the master alone answers.
#include <algorithm>

#include "client/client_impl.h"
#include "client/messages.h"
#include "client/reader.h"

namespace tiercel::client {
namespace {

// Keys of one write to the master: enough to hide the round trip, little enough to share the connection.
constexpr size_t kKeysPerWrite = 512;
constexpr size_t kScanCount = 1000;

ObjectStat StatOf(const Found& found) {
  ObjectStat stat{.version = found.version, .size = found.size, .checksum = found.sum, .lease_ms = found.lease_ms};
  for (const resp::ReplicaDescriptor& replica : found.replicas) {
    stat.replicas.push_back(
        {replica.tier, replica.store, std::vector<Extent>(replica.extents.begin(), replica.extents.end())});
  }
  return stat;
}

Result<bool> Truth(const resp::Reply& reply) {
  TIERCEL_ASSIGN(int64_t number, ParseInteger(reply));
  return number > 0;
}

}  // namespace

Result<resp::Reply> ClientImpl::Call(std::span<const std::string_view> words, Control::Again again) {
  TIERCEL_TRY(Usable());
  return parts_.control.Call(words, CallDeadline(), again);
}

template <typename T, typename Parse>
std::vector<Result<T>> ClientImpl::ForEachKey(std::string_view command, std::span<const std::string_view> keys,
                                              Control::Again again, Parse&& parse) {
  std::vector<Result<T>> results;
  results.reserve(keys.size());
  Status usable = Usable();
  const Deadline deadline = CallDeadline();
  for (size_t start = 0; start < keys.size(); start += kKeysPerWrite) {
    auto part = keys.subspan(start, std::min(kKeysPerWrite, keys.size() - start));
    std::vector<Control::Command> commands;
    for (std::string_view key : part) {
      if (usable.ok() && CheckKey(key).ok()) commands.push_back({command, key});
    }
    Result<std::vector<resp::Reply>> replies = std::vector<resp::Reply>();
    if (!commands.empty()) replies = parts_.control.Pipeline(commands, deadline, again);
    size_t next = 0;
    for (std::string_view key : part) {
      Status allowed = usable.ok() ? CheckKey(key) : usable;
      if (!allowed.ok()) {
        results.push_back(std::move(allowed).error());
      } else {
        replies.ok() ? results.push_back(parse((*replies)[next++])) : results.push_back(replies.error());
      }
    }
  }
  return results;
}

Result<bool> ClientImpl::Exists(std::string_view key) { return std::move(ExistsBatch({&key, 1})[0]); }

std::vector<Result<bool>> ClientImpl::ExistsBatch(std::span<const std::string_view> keys) {
  return ForEachKey<bool>("EXISTS", keys, Control::Again::kYes, Truth);
}

// Not sent again when the reply was lost: the second answer would deny what the first one did.
Result<bool> ClientImpl::Remove(std::string_view key) { return std::move(RemoveBatch({&key, 1})[0]); }

std::vector<Result<bool>> ClientImpl::RemoveBatch(std::span<const std::string_view> keys) {
  return ForEachKey<bool>("DEL", keys, Control::Again::kNo, Truth);
}

Result<std::optional<ObjectStat>> ClientImpl::Stat(std::string_view key) { return std::move(StatBatch({&key, 1})[0]); }

std::vector<Result<std::optional<ObjectStat>>> ClientImpl::StatBatch(std::span<const std::string_view> keys) {
  std::vector<Result<std::optional<ObjectStat>>> results;
  results.reserve(keys.size());
  Status usable = Usable();
  const Deadline deadline = CallDeadline();
  for (size_t start = 0; start < keys.size(); start += kKeysPerWrite) {
    auto part = keys.subspan(start, std::min(kKeysPerWrite, keys.size() - start));
    std::vector<std::string_view> asking;
    for (std::string_view key : part) {
      if (usable.ok() && CheckKey(key).ok()) asking.push_back(key);
    }
    std::vector<Result<std::optional<Found>>> found;
    if (!asking.empty()) found = Reader::LookUp(&parts_, asking, std::nullopt, /*lease=*/false, deadline);
    size_t next = 0;
    for (std::string_view key : part) {
      Status allowed = usable.ok() ? CheckKey(key) : usable;
      if (!allowed.ok()) {
        results.push_back(std::move(allowed).error());
        continue;
      }
      const auto& one = found[next++];
      if (!one.ok()) {
        results.push_back(one.error());
      } else {
        results.push_back(one->has_value() ? std::optional(StatOf(**one)) : std::nullopt);
      }
    }
  }
  return results;
}

Result<std::optional<uint64_t>> ClientImpl::Size(std::string_view key) {
  TIERCEL_ASSIGN(std::optional<ObjectStat> stat, Stat(key));
  return stat ? std::optional(stat->size) : std::nullopt;
}

Result<uint32_t> ClientImpl::MatchPrefix(std::span<const std::string_view> keys) {
  for (std::string_view key : keys) TIERCEL_TRY(CheckKey(key));
  uint32_t matched = 0;
  while (matched < keys.size()) {
    auto part = keys.subspan(matched, std::min(kKeysPerWrite, keys.size() - matched));
    Words words{"PREFIXMATCH"};
    words.AddNumber(static_cast<int64_t>(part.size()));
    for (std::string_view key : part) words.Add(key);
    TIERCEL_ASSIGN(resp::Reply reply, Call(words.view(), Control::Again::kYes));
    if (reply.is_error()) return reply.ToError();
    if (reply.items.empty()) return UnexpectedReply("PREFIXMATCH", reply);
    TIERCEL_ASSIGN(int64_t more, ParseInteger(reply.items[0]));
    matched += static_cast<uint32_t>(std::clamp<int64_t>(more, 0, static_cast<int64_t>(part.size())));
    if (more < static_cast<int64_t>(part.size())) break;
  }
  return matched;
}

Status ClientImpl::Scan(std::string_view pattern, const std::function<bool(std::string_view key)>& visit) {
  std::string cursor = "0";
  do {
    Words words{"SCAN", cursor};
    if (!pattern.empty()) words.Add("MATCH").Add(pattern);
    words.Add("COUNT").AddNumber(kScanCount);
    TIERCEL_ASSIGN(resp::Reply reply, Call(words.view(), Control::Again::kYes));
    if (reply.is_error()) return reply.ToError();
    if (reply.items.size() != 2) return UnexpectedReply("SCAN", reply);
    for (const resp::Reply& key : reply.items[1].items) {
      if (!visit(key.text)) return Ok();
    }
    cursor = reply.items[0].text;
  } while (cursor != "0");
  return Ok();
}

}  // namespace tiercel::client
