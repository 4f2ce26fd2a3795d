// The commands: what their arguments are, and what they do. Each adds itself to the program's command line and is
// run when it was chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/tiercel/session.h"

namespace tiercel::cli {

// The command that was chosen on the command line.
using Chosen = std::function<ExitCode(Session&)>;

void AddPut(CLI::App* app, Chosen* chosen);
void AddGet(CLI::App* app, Chosen* chosen);
void AddCat(CLI::App* app, Chosen* chosen);
void AddList(CLI::App* app, Chosen* chosen);
void AddStat(CLI::App* app, Chosen* chosen);
void AddRemove(CLI::App* app, Chosen* chosen);
void AddExists(CLI::App* app, Chosen* chosen);
void AddNodes(CLI::App* app, Chosen* chosen);
void AddSegments(CLI::App* app, Chosen* chosen);
void AddPing(CLI::App* app, Chosen* chosen);

}  // namespace tiercel::cli
