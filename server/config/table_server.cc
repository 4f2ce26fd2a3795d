// Rows: roles, sockets, users, logging.
#include "server/config/rows.h"

namespace tiercel::config {
namespace {

constexpr int64_t kSecond = 1000, kMinute = 60 * kSecond, kHour = 60 * kMinute;
constexpr uint64_t kKb = 1024, kMb = kKb * kKb, kGb = kMb * kKb;
constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxBinds = 16;
constexpr size_t kMaxUsers = 4096;

std::string CheckAddress(const std::string& word) {
  const std::string_view address = std::string_view(word).substr(word.starts_with('-') ? 1 : 0);
  if (address.empty() || address.size() > kMaxNameBytes || address.find(' ') != address.npos ||
      HasControlBytes(address)) {
    return "argument must be addresses or host names";
  }
  return "";
}

template <typename Field>
Option Binds(std::string_view name, std::string_view default_words, Field field, std::string_view help) {
  Option option = List(name, default_words, "ADDRESS...", "1 to 16 addresses or names; - before one: it may be missing",
                       kMaxBinds, &CheckAddress, field, help);
  // IPv6 addresses may stand in brackets, as the server prints them.
  option.set = [set = option.set](Words words, Settings* settings) {
    std::vector<std::string> plain(words.begin(), words.end());
    for (std::string& word : plain) {
      const size_t open = word.starts_with('-') ? 1 : 0;
      if (word.size() < open + 2 || word[open] != '[' || word.back() != ']') continue;
      word = word.substr(0, open) + word.substr(open + 1, word.size() - open - 2);
    }
    return set(plain, settings);
  };
  return option;
}

template <typename Field>
Option Port(std::string_view name, std::string_view default_words, int64_t min, Field field, std::string_view help) {
  return Integer(name, default_words, min, 65535, field, help);
}

// Takes an address as the server itself prints it, "HOST:PORT" or "[V6]:PORT", apart into two words; brackets go.
std::vector<std::string> HostAndPortWords(Words words) {
  std::string_view host = words[0];
  std::vector<std::string> parts;
  const size_t close = host.starts_with('[') ? host.find(']') : std::string_view::npos;
  if (close != std::string_view::npos) {
    parts.emplace_back(host.substr(1, close - 1));
    host.remove_prefix(close + 1);
    if (host.starts_with(':')) {
      parts.emplace_back(host.substr(1));
    } else if (!host.empty()) {
      return {words.begin(), words.end()};  // neither: as it stands, to be refused
    }
  } else if (const size_t colon = host.find(':'); colon != std::string_view::npos && host.rfind(':') == colon) {
    parts = {std::string(host.substr(0, colon)), std::string(host.substr(colon + 1))};
  } else {
    parts.emplace_back(host);
  }
  parts.insert(parts.end(), words.begin() + 1, words.end());
  return parts;
}

// HOST PORT, or HOST alone where `port_needed` is false. Not set: an empty host and port 0.
template <typename HostField, typename PortField>
Option HostAndPort(std::string_view name, bool port_needed, HostField host, PortField port, std::string_view help) {
  Option option{.name = std::string(name),
                .syntax = port_needed ? "HOST PORT" : "HOST [PORT]",
                .allowed = "a host name or address and a port from 1 to 65535",
                .help = std::string(help),
                .min_words = 1,
                .max_words = 2};
  option.set = [=](Words given, Settings* settings) -> Status {
    const std::vector<std::string> words = HostAndPortWords(given);
    if (port_needed && words.size() < 2) return Bad("wrong number of arguments: 1 given");
    if (words.size() > 2 || words[0].find_first_of("[]") != std::string::npos) {
      return Bad("must be a host and at most one port");
    }
    if (std::string why = CheckAddress(words[0]); !why.empty() || words[0].starts_with('-')) {
      return Bad("the host must be an address or a host name");
    }
    const int64_t number = words.size() == 2 ? ParseInt64(words[1]).value_or(-1) : 0;
    if (words.size() == 2 && (number < 1 || number > 65535)) return Bad("the port must be a number from 1 to 65535");
    host(*settings) = words[0];
    port(*settings) = static_cast<uint16_t>(number);
    return Ok();
  };
  option.lines = [=](const Settings& settings) {
    std::vector<std::string> lines;
    if (host(settings).empty()) return lines;
    lines.push_back(QuoteWord(host(settings)));
    if (port(settings) != 0) lines.back() += fmt::format(" {}", port(settings));
    return lines;
  };
  option.immutable = true;
  return option;
}

Option Roles() {
  Option option{.name = "roles",
                .syntax = "master|store|master store",
                .default_words = "master store",
                .allowed = "master, store, or both",
                .help =
                    "What this process is. A master owns metadata and policy and speaks to clients; a store gives "
                    "memory and moves bytes. Both: a whole system in one process.",
                .max_words = 2,
                .immutable = true};
  option.set = [](Words words, Settings* settings) -> Status {
    settings->master_role = settings->store_role = false;
    for (const std::string& word : words) {
      bool* role = EqualNames(word, "master")  ? &settings->master_role
                   : EqualNames(word, "store") ? &settings->store_role
                                               : nullptr;
      if (role == nullptr) return Bad("argument(s) must be one of the following: master, store");
      if (*role) return Bad("a role is named twice");
      *role = true;
    }
    return Ok();
  };
  option.lines = [](const Settings& s) {
    return std::vector<std::string>{s.master_role && s.store_role ? "master store"
                                    : s.master_role               ? "master"
                                                                  : "store"};
  };
  return option;
}

// Names stand in replies as STORE.INCARNATION, between blanks.
Option StoreName() {
  Option option =
      Text("store-name", "", "NAME", 64, TIERCEL_FIELD(store_name),
           "Name of the store, unique in the cluster. A store that comes back under its name takes over from itself.");
  option.default_note = "the host's name";
  option.allowed = "1 to 64 letters, digits, and any of . _ -";
  option.set = [](Words words, Settings* settings) -> Status {
    const auto bad = [](char c) {
      return !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' &&
             c != '-';
    };
    const std::string& name = words[0];
    if (name.empty() || name.size() > 64 || std::any_of(name.begin(), name.end(), bad)) {
      return Bad("argument must be 1 to 64 letters, digits, and any of . _ -");
    }
    settings->store_name = name;
    return Ok();
  };
  option.immutable = true;
  return option;
}

std::string CheckLocationWord(const std::string& word) {
  const size_t equal = word.find('=');
  if (equal == 0 || equal == word.npos || equal + 1 == word.size() || word.size() > kMaxNameBytes ||
      word.find(' ') != word.npos || HasControlBytes(word)) {
    return "argument must be words KEY=VALUE";
  }
  return "";
}

Option Location() {
  Option option = List("location", "", "host=NAME [KEY=VALUE]...", "up to 8 words KEY=VALUE, host= among them", 8,
                       &CheckLocationWord, TIERCEL_FIELD(location),
                       "Where the store stands. Replicas of one object go to stores with distinct host= values.");
  option.default_note = "host= and the host's name";
  option.set = [set = std::move(option.set)](Words words, Settings* settings) -> Status {
    const auto host =
        std::find_if(words.begin(), words.end(), [](const std::string& w) { return w.starts_with("host="); });
    if (host == words.end()) return Bad("argument must have a word host=NAME");
    TIERCEL_TRY(set(words, settings));
    settings->location_host = host->substr(5);
    return Ok();
  };
  option.immutable = true;
  return option;
}

Option Secret(Option option) {
  option.secret = true;
  return option;
}

Option Immutable(Option option) {
  option.immutable = true;
  return option;
}

void AddRoleRows(Rows* rows) {
  rows->In(Section::kRoles);
  rows->Add(Roles());
  rows->Add(HostAndPort("master", true, TIERCEL_FIELD(master_host), TIERCEL_FIELD(master_port),
                        "Where the master is: the one directive that a process with only the role store needs."));
  rows->Add(Immutable(Text("masteruser", "default", "NAME", kMaxNameBytes, TIERCEL_FIELD(master_user),
                           "The user as whom a store logs in to its master. It needs the right of a store.")));
  rows->Add(Immutable(Secret(Text("masterauth", "", "PASSWORD", 512, TIERCEL_FIELD(master_auth),
                                  "That user's password. Not set: none is sent."))));
  rows->Add(StoreName());
  rows->Add(Location());
}

Option UnixPermissions() {
  Option option = Ranged(
      "unixsocketperm", "0", "OCTAL", "argument must be an octal number",
      [](std::string_view text) -> std::optional<int64_t> {
        int64_t mode = 0;
        for (char c : text) {
          if (c < '0' || c > '7' || mode > 0777) return std::nullopt;
          mode = mode * 8 + (c - '0');
        }
        return text.empty() ? std::nullopt : std::optional(mode);
      },
      [](int64_t mode) { return fmt::format("{:o}", mode); }, int64_t{0}, int64_t{0777},
      TIERCEL_FIELD(unix_socket_permissions), "Permissions of that socket, such as 770. 0: as the umask leaves them.");
  return Immutable(std::move(option));
}

void AddRespRows(Rows* rows) {
  rows->In(Section::kResp);
  rows->Add(Immutable(Port("port", "7379", 0, TIERCEL_FIELD(port),
                           "TCP port for RESP: any Redis client, Tiercel's clients, stores. 0: a free one, which the "
                           "server names when it is ready.")));
  rows->Add(Immutable(Binds("bind", "127.0.0.1 -::1", TIERCEL_FIELD(binds),
                            "Addresses to listen on. An address behind - may be missing on this host.")));
  rows->Add(Immutable(Text("unixsocket", "", "PATH", kMaxPath, TIERCEL_FIELD(unix_socket),
                           "A UNIX socket for RESP as well. Relative paths lie in dir.")));
  rows->Add(UnixPermissions());
  rows->Add(Immutable(Bool("protected-mode", "yes", TIERCEL_FIELD(protected_mode),
                           "While no password is set, serve RESP to this host only, whatever bind says.")));
  rows->Add(
      Immutable(Integer("io-threads", "1", 1, 64, TIERCEL_FIELD(io_threads), "Threads that serve RESP connections.")));
  rows->Add(Immutable(Integer("databases", "16", 1, 65536, TIERCEL_FIELD(core.name_spaces),
                              "Namespaces that SELECT reaches: 0 to this number - 1.")));
  rows->Add(Integer("maxclients", "10000", 1, 1'000'000, TIERCEL_FIELD(max_clients),
                    "RESP connections at the same time. One more is told so and closed."));
  rows->Add(Integer("timeout", "0", 0, 1'000'000'000, TIERCEL_FIELD(timeout_s),
                    "Seconds after which an idle connection is closed. 0: never."));
  rows->Add(Immutable(Integer("tcp-keepalive", "300", 0, 86'400, TIERCEL_FIELD(tcp_keepalive_s),
                              "Seconds of silence after which the kernel asks whether the peer is still there. 0: "
                              "never.")));
  rows->Add(Immutable(Integer("tcp-backlog", "511", 1, 65535, TIERCEL_FIELD(tcp_backlog),
                              "Connections that may wait to be accepted.")));
  rows->Add(
      Size("proto-max-bulk-len", "512mb", kMb, 64 * kGb, TIERCEL_FIELD(proto_max_bulk_bytes),
           "Longest value or argument that RESP takes. Tiercel's own clients move values of up to 64gb past it."));
  rows->Add(Size("client-output-buffer-limit", "1mb", 64 * kKb, 16 * kGb, TIERCEL_FIELD(reply_budget_bytes),
                 "Replies of a connection that are encoded but not sent. Beyond it the connection is not read further "
                 "until they have left. Large values are not buffered and do not count."));
  rows->Add(Size("client-query-buffer-limit", "64mb", kMb, kGb, TIERCEL_FIELD(query_buffer_bytes),
                 "Longest command, without its large values, which go straight into place."));
  rows->Add(Time("client-idle-write-timeout", "60s", kSecond, kHour, TIERCEL_FIELD(idle_write_timeout_ms),
                 "A client that takes no byte of its replies for this long is disconnected."));
  rows->Add(Time("client-idle-read-timeout", "5m", kSecond, 24 * kHour, TIERCEL_FIELD(idle_read_timeout_ms),
                 "A client that stops in the middle of a command for this long is disconnected."));
}

Option User() {
  Option option{.name = "user",
                .syntax = "NAME WORD...",
                .allowed = "NAME, then on, off, >PASSWORD, nopass, and for stores +@store",
                .help =
                    "A named user with a password: user NAME on >PASSWORD. Puts and grants belong to users. Add "
                    "+@store for the user of stores: their commands hand out the keys of grants.",
                .min_words = 2,
                .max_words = 32,
                .immutable = true,
                .repeatable = true,
                .secret = true,
                .listed = false};
  option.set = [](Words words, Settings* settings) -> Status {
    if (words[0].empty() || words[0].size() > kMaxNameBytes || HasControlBytes(words[0])) {
      return Bad("the user's name must be 1 to 255 bytes without control characters");
    }
    if (settings->users.size() >= kMaxUsers) return Bad(fmt::format("there are {} users already", kMaxUsers));
    for (const auto& user : settings->users) {
      if (user[0] == words[0]) return Bad("the user is defined twice");
    }
    settings->users.emplace_back(words.begin(), words.end());
    return Ok();
  };
  option.clear = [](Settings* settings) { settings->users.clear(); };
  option.lines = [](const Settings& settings) {
    std::vector<std::string> lines;
    for (const auto& user : settings.users) lines.push_back(JoinWords(user));
    return lines;
  };
  return option;
}

void AddUserRows(Rows* rows) {
  rows->In(Section::kUsers);
  rows->Add(Secret(Text("requirepass", "", "PASSWORD", 512, TIERCEL_FIELD(requirepass),
                        "Password of the user \"default\". Not set: everybody who reaches a port is that user.")));
  rows->Add(User());
}

void AddGeneralRows(Rows* rows) {
  rows->In(Section::kGeneral);
  rows->Add(Immutable(Text("dir", ".", "PATH", kMaxPath, TIERCEL_FIELD(dir),
                           "Working directory: what must survive a restart, and the sockets and files that are given "
                           "by relative paths.")));
  rows->Add(Immutable(Text("logfile", "", "PATH", kMaxPath, TIERCEL_FIELD(log_file),
                           "Where the log goes. Not set: standard error. SIGHUP opens it again, for log rotation.")));
  rows->Add(Choice("loglevel", "notice",
                   Names<LogLevel>{{"debug", LogLevel::kDebug},
                                   {"verbose", LogLevel::kVerbose},
                                   {"notice", LogLevel::kNotice},
                                   {"warning", LogLevel::kWarning},
                                   {"error", LogLevel::kError},
                                   {"nothing", LogLevel::kNothing}},
                   TIERCEL_FIELD(log_level), "How much is logged."));
}

Option Transports() {
  const Names<Transport> names = {{"shm", Transport::kShm}, {"tcp", Transport::kTcp}};
  Option option{.name = "transports",
                .syntax = "shm|tcp ...",
                .default_words = "shm tcp",
                .allowed = "shm, tcp, or both in either order",
                .help =
                    "Wires that this process offers and uses, in order of preference: shared memory for clients on "
                    "the same host, and TCP.",
                .max_words = 2,
                .immutable = true};
  option.set = [names](Words words, Settings* settings) -> Status {
    std::vector<Transport> chosen;
    for (const std::string& word : words) {
      const auto found =
          std::find_if(names.begin(), names.end(), [&](const auto& name) { return EqualNames(name.first, word); });
      if (found == names.end()) return Bad("argument(s) must be one of the following: " + JoinNames(names, ", "));
      if (std::find(chosen.begin(), chosen.end(), found->second) != chosen.end()) return Bad("a wire is named twice");
      chosen.push_back(found->second);
    }
    settings->transports = chosen;
    return Ok();
  };
  option.lines = [names](const Settings& settings) {
    std::string line;
    for (Transport transport : settings.transports) {
      for (const auto& [name, value] : names) {
        if (value == transport) line += (line.empty() ? "" : " ") + name;
      }
    }
    return std::vector<std::string>{line};
  };
  return option;
}

void AddDataRows(Rows* rows) {
  rows->In(Section::kData);
  rows->Add(Immutable(Port("data-port", "7380", 0, TIERCEL_FIELD(data_port),
                           "TCP port of a store for bulk transfers. 0: a free one.")));
  Option& binds =
      rows->Add(Immutable(Binds("data-bind", "", TIERCEL_FIELD(data_binds), "Addresses that it listens on.")));
  binds.default_note = "as bind";
  Option& advertise = rows->Add(
      HostAndPort("data-advertise", false, TIERCEL_FIELD(data_advertise_host), TIERCEL_FIELD(data_advertise_port),
                  "The address under which others reach the data port, where that is not the one that the "
                  "store sees: behind address translation. The master dials it before it takes the store."));
  advertise.default_note = "found by the store";
  rows->Add(Immutable(Text("data-socket", "data.sock", "PATH", kMaxPath, TIERCEL_FIELD(data_socket),
                           "UNIX socket for bulk transfers on the store's host; passes shared memory. Relative paths "
                           "lie in dir. Empty (\"\"): none.")));
  rows->Add(
      Immutable(Integer("data-threads", "2", 1, 64, TIERCEL_FIELD(data_threads), "Threads that move bulk data.")));
  rows->Add(Transports());
}

void AddAdminRows(Rows* rows) {
  rows->In(Section::kAdmin);
  rows->Add(Immutable(Port("admin-port", "7381", 0, TIERCEL_FIELD(admin_port),
                           "HTTP port for /healthz, /readyz and /metrics. 0: a free one.")));
  rows->Add(Immutable(Binds("admin-bind", "127.0.0.1 -::1", TIERCEL_FIELD(admin_binds),
                            "Addresses that it listens on. It is read-only, and has no password.")));
}

}  // namespace

void AddServerRows(Rows* rows) {
  AddRoleRows(rows);
  AddRespRows(rows);
  AddUserRows(rows);
  AddGeneralRows(rows);
  AddDataRows(rows);
  AddAdminRows(rows);
}

}  // namespace tiercel::config
