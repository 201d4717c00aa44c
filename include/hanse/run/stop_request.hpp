// Requests to stop at the next round's end: SIGUSR1, SIGTERM, SIGINT.
#pragma once

namespace hanse {

// Installs the handlers. A second SIGINT ends the process as usual.
void catch_stop_signals();

// Has this process been asked to stop?
bool stop_requested();

}  // namespace hanse
