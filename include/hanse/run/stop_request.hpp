// Requests to stop at the next round's end: SIGUSR1, SIGTERM, SIGINT.
#pragma once

namespace hanse {

// From here on a request is remembered, also one that came since the process began: the launcher
// holds them back. A second SIGINT ends the process as usual.
void catch_stop_signals();
// The same for commands without rounds: a request ends the process.
void end_at_stop_signals();

// Has this process been asked to stop?
bool stop_requested();

}  // namespace hanse
