// What becomes of a thread that makes a system call which its role has no use for: the process ends, and says
// why.
#pragma once

namespace boxlite::jail {

// From now on, such a call is written into the file `record`, at its position, as an exit record of a box in
// JSON, and the process ends with 128 + SIGSYS. `record` stays open.
void report_violations(int record);

// The calling thread, as the report names it; outlives the thread.
void set_thread_name_in_report(const char* name);

}  // namespace boxlite::jail
