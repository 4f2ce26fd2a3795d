#include "server/admin/admin.h"

namespace tiercel::admin {
namespace {

// Store and segment names come from other machines.
std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

void AppendRow(const std::vector<std::string>& cells, const char* tag, std::string* out) {
  *out += "<tr>";
  for (const std::string& cell : cells) {
    *out += std::string("<") + tag + ">" + Escaped(cell) + "</" + tag + ">";
  }
  *out += "</tr>\n";
}

constexpr char kHead[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Tiercel</title>\n"
    "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
    "td,th{border:1px solid #bbb;padding:2px 8px;text-align:left}</style></head><body>\n<h1>Tiercel</h1>\n";

}  // namespace

std::string StatusPage(const Readiness& readiness, const std::vector<StatusTable>& tables) {
  std::string page = kHead;
  page += readiness.ready ? "<p>Ready.</p>\n" : "<p>Not ready: " + Escaped(readiness.reason) + "</p>\n";
  for (const StatusTable& table : tables) {
    page += "<h2>" + Escaped(table.title) + "</h2>\n<table>\n";
    AppendRow(table.columns, "th", &page);
    for (const auto& row : table.rows) AppendRow(row, "td", &page);
    page += "</table>\n";
  }
  return page +
         "<p><a href=\"/metrics\">/metrics</a> <a href=\"/healthz\">/healthz</a> <a href=\"/readyz\">/readyz</a></p>\n"
         "</body></html>\n";
}

}  // namespace tiercel::admin
