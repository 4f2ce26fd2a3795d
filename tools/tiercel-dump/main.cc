// tiercel-dump: prints the index of a master that is not running, and checks it.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "server/index/index_reader.h"
#include "tools/tiercel-dump/record_json.h"

namespace tiercel::dump {
namespace {

enum ExitCode : int {
  kDone = 0,
  kDamaged = 1,  // something is not what was written, or is missing
  kUsage = 2,
  kNoIndex = 3,  // not there, in use, of another format, not readable
};

constexpr const char* kFooter =
    "Prints one JSON object a line: the format, the generation, then stores, segments, namespaces and objects.\n"
    "Texts that are not UTF-8 are given in hexadecimal, under NAME-hex.\n"
    "Exit status: 0 done; 1 the index is damaged, or lost records; 2 wrong arguments; 3 there is no index, a server\n"
    "is using it, or it cannot be read.";

int Fail(const Error& error) {
  std::fprintf(stderr, "tiercel-dump: %s\n", error.message().c_str());
  return error.code() == ErrorCode::kChecksum ? kDamaged : kNoIndex;
}

bool Print(const std::string& line) {
  return std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fputc('\n', stdout) != EOF;
}

// Tables block by block, values by their checksums, the log by its length.
int Check(index::IndexReader* reader, const index::LoadReport& report) {
  bool damaged = false;
  const auto complain = [&](const std::string& what) {
    std::fprintf(stderr, "tiercel-dump: %s\n", what.c_str());
    damaged = true;
  };
  if (const Status intact = reader->VerifyTables(); !intact.ok()) complain(intact.error().message());
  if (report.bad_checksum > 0) complain(std::to_string(report.bad_checksum) + " records with a wrong checksum");
  if (report.malformed > 0) complain(std::to_string(report.malformed) + " malformed records");
  if (reader->lost_records() > 0) {
    complain("the last " + std::to_string(reader->lost_records()) + " records are lost from the log");
  }
  return damaged ? kDamaged : kDone;
}

int Run(const std::string& dir, bool check) {
  auto reader = index::IndexReader::Open(dir);
  if (!reader.ok()) return Fail(reader.error());
  if (!check && !Print("{\"type\":\"index\",\"format\":" + std::to_string((*reader)->format()) + "}")) return kNoIndex;
  const Result<index::LoadReport> report = (*reader)->Scan([&](core::Record& record) -> Status {
    if (!check && !Print(RecordJson(record))) return Error(ErrorCode::kIo, "cannot write to standard output");
    return Ok();
  });
  if (!report.ok()) return Fail(report.error());
  if (std::fflush(stdout) != 0) return Fail(Error(ErrorCode::kIo, "cannot write to standard output"));
  const int result = Check(reader->get(), *report);
  if (check) {
    std::fprintf(stderr, "tiercel-dump: %s: %lu objects, %lu stores, %lu segments, %lu namespaces\n",
                 result == kDone ? "intact" : "DAMAGED", report->objects, report->stores, report->segments,
                 report->namespaces);
  }
  return result;
}

int Main(int argc, char** argv) {
  std::string dir;
  bool check = false;
  CLI::App app("Prints the index of a Tiercel master that is not running.", "tiercel-dump");
  app.footer(kFooter);
  app.add_option("DIR", dir, "the index's directory (`index` in the server's `dir`), or a copy made by BGSAVE")
      ->required();
  app.add_flag("-c,--check", check, "print no records; verify everything and say whether it is intact");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return Run(dir, check);
}

}  // namespace
}  // namespace tiercel::dump

int main(int argc, char** argv) { return tiercel::dump::Main(argc, argv); }
