// Frames of the data protocol: pure codec, no sockets. docs/data-protocol.md has the byte layouts.
//
// Every frame is a header of 48 bytes, a body of at most kMaxBodyBytes, and, for WRITE and READ_OK only, a payload.
// All numbers are little-endian. The header carries XXH3-64 sums of itself and of the body, so that a flipped bit
// in any field is a typed error and never a wrong length. Payload is covered end to end by the objects' checksums.
//
// Decoders take bytes from outside: they check every length before they use it, allocate nothing that a length from
// the wire could make large, and accept any bytes without undefined behaviour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/grant.h"
#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::transfer {

inline constexpr uint32_t kFrameMagic = 0x50444354;  // "TCDP" as it lies on the wire
// A major is incompatible and refused. Minors only add: both ends use the lower one.
// 1.0: READ, WRITE, shared memory. 1.1: HELLO_OK carries the store's grant clock.
inline constexpr uint8_t kProtocolMajor = 1;
inline constexpr uint8_t kProtocolMinor = 1;
inline constexpr uint8_t kMinorGrantClock = 1;

inline constexpr size_t kHeaderBytes = 48;
inline constexpr size_t kMaxBodyBytes = 8 * 1024;
inline constexpr size_t kMaxFrameBytes = kHeaderBytes + kMaxBodyBytes;
// Sums in one COPY_OK: the largest range of one COPY is about this many blocks.
inline constexpr uint32_t kMaxSums = 1000;

enum class FrameType : uint8_t {
  kHello = 1,    // client: opens the connection
  kHelloOk = 2,  // server
  kError = 3,    // server: answers any request, or says why the connection ends (id 0)
  kRead = 4,
  kReadOk = 5,  // payload: the bytes
  kWrite = 6,   // payload: the bytes
  kWriteOk = 7,
  kAttach = 8,    // UNIX sockets only, from here on: asks for a segment's descriptor
  kAttachOk = 9,  // with a descriptor
  kAdmit = 10,    // pins a range of an attached segment
  kAdmitOk = 11,
  kRelease = 12,  // ends an ADMIT; no answer
  kMap = 13,      // with a descriptor: memory of the client's that COPY may name; no answer when it is taken
  kUnmap = 14,    // no answer
  kCopy = 15,     // the store copies out of mapped memory into a segment
  kCopyOk = 16,   // sums of what was copied
};

// Bits of FrameHeader::flags.
inline constexpr uint8_t kAdmitView = 1;  // ADMIT: for a view that lasts until it is released

struct FrameHeader {
  uint8_t major = kProtocolMajor;
  uint8_t minor = kProtocolMinor;
  FrameType type{};
  uint8_t flags = 0;
  uint64_t id = 0;  // of the request; chosen by the client, echoed by the server
  uint32_t body_bytes = 0;
  uint64_t payload_bytes = 0;
  uint64_t body_sum = 0;
};

struct Hello {
  Ticket ticket;
  Incarnation expected;  // 0: any
};
struct HelloOk {
  Incarnation incarnation;
  uint8_t minor = 0;          // that both use
  int64_t grant_time_ms = 0;  // the store's idea of the clock that grants expire on; 0: unknown. Since 1.1
};
struct DataRequest {
  SegmentRef place;
  uint64_t offset = 0;
  uint64_t length = 0;
  Grant grant;
};
struct CopyRequest {
  DataRequest data;
  uint32_t map = 0;
  uint64_t map_offset = 0;
  uint64_t operation_offset = 0;  // sums are of blocks of the operation, not of the request
};
struct MapRequest {
  uint32_t map = 0;  // chosen by the client
  uint64_t size = 0;
};

using FrameBytes = std::vector<std::byte>;  // kept by its owner, so that its memory is used again

// ---- encoding: appends one whole frame (without payload) to *out
void AppendHello(uint8_t minor, const Hello& hello, FrameBytes* out);
void AppendHelloOk(uint8_t claimed_minor, const HelloOk& reply, FrameBytes* out);
// READ, WRITE or ADMIT. A null grant is sent as zeros: the store refuses it.
void AppendRequest(FrameType type, uint8_t flags, uint64_t id, const SegmentRef& place, uint64_t offset,
                   uint64_t length, const Grant* grant, FrameBytes* out);
void AppendCopy(uint64_t id, const SegmentRef& place, uint64_t offset, uint64_t length, const Grant* grant,
                uint32_t map, uint64_t map_offset, uint64_t operation_offset, FrameBytes* out);
void AppendAttach(uint64_t id, SegmentRef place, FrameBytes* out);
void AppendAttachOk(uint64_t id, uint64_t size, FrameBytes* out);
void AppendMap(uint64_t id, const MapRequest& map, FrameBytes* out);
void AppendUnmap(uint32_t map, FrameBytes* out);
void AppendCopyOk(uint64_t id, std::span<const uint64_t> sums, FrameBytes* out);
// READ_OK, WRITE_OK, ADMIT_OK, RELEASE: no body.
void AppendBare(FrameType type, uint64_t id, uint64_t payload_bytes, FrameBytes* out);
// The message is cut to 1 KiB.
void AppendError(uint64_t id, const Error& error, FrameBytes* out);

// ---- decoding
// Checks magic, major, the header's sum and the bounds of its lengths, in this order. kProtocol: not ours, damaged,
// or against the rules; kTooBig: a length over its bound; kPeerProtocol: another major (the message names both).
Result<FrameHeader> DecodeHeader(std::span<const std::byte> header);  // REQUIRES: kHeaderBytes
bool BodyIsIntact(const FrameHeader& header, std::span<const std::byte> body);

Result<Hello> DecodeHello(std::span<const std::byte> body);
Result<HelloOk> DecodeHelloOk(std::span<const std::byte> body);
Result<DataRequest> DecodeRequest(std::span<const std::byte> body);
Result<CopyRequest> DecodeCopy(std::span<const std::byte> body);
Result<SegmentRef> DecodeAttach(std::span<const std::byte> body);
Result<uint64_t> DecodeAttachOk(std::span<const std::byte> body);
Result<MapRequest> DecodeMap(std::span<const std::byte> body);
Result<uint32_t> DecodeUnmap(std::span<const std::byte> body);
Status DecodeCopyOk(std::span<const std::byte> body, std::vector<uint64_t>* sums);
// The peer's error, or kProtocol when the frame itself is malformed (then *well_formed is false).
Error DecodeError(std::span<const std::byte> body, bool* well_formed);

// "1.1": for messages.
std::string VersionText(int major, int minor);

}  // namespace tiercel::transfer
