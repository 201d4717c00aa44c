// Requests to stop at the next round's end.
#pragma once

namespace hanse {

// From here on SIGUSR1, SIGUSR2 and SIGXCPU, by which schedulers warn of the end, are remembered,
// also those since the process began: the launcher holds them back. SIGTERM, SIGINT and SIGHUP
// still end the process at once, as there is nothing to keep.
void catch_stop_warnings();

// Call it when rounds begin: SIGTERM, SIGINT and SIGHUP are remembered, too; an ignored SIGHUP
// (nohup) stays ignored. A second SIGTERM or SIGINT, at least 0.2 s after the first, ends the
// process as if nobody had caught it, whatever it waits for.
void catch_stop_signals();

// For commands without rounds: any request ends the process.
void end_at_stop_signals();

// Has this process been asked to stop?
bool stop_requested();

}  // namespace hanse
