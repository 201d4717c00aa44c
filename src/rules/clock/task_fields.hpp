// Tasks as fields of a state: an array for each of their members.
#pragma once

#include <string>
#include <vector>

#include "hanse/base/state.hpp"

namespace hanse {

// One member of all tasks, as the field NAME.
template <class Task, class Value>
void visit_member(StateFields& fields, const std::string& name, std::vector<Task>& tasks,
                  Value Task::*member) {
  using Kept = std::conditional_t<std::is_same_v<Value, bool>, int64_t, Value>;
  std::vector<Kept> values;
  for (const Task& task : tasks) values.push_back(task.*member);
  fields.all(name, values);
  tasks.resize(values.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) tasks[i].*member = static_cast<Value>(values[i]);
}

// What tasks of rounds and of dispatches have in common.
template <class Task>
void visit_tasks(StateFields& fields, const std::string& name, std::vector<Task>& tasks) {
  visit_member(fields, name + "/client", tasks, &Task::client);
  visit_member(fields, name + "/place", tasks, &Task::place);
  visit_member(fields, name + "/weight", tasks, &Task::weight);
  visit_member(fields, name + "/start", tasks, &Task::start);
  visit_member(fields, name + "/known", tasks, &Task::known);
  visit_member(fields, name + "/arrives", tasks, &Task::arrives);
  visit_member(fields, name + "/staleness", tasks, &Task::staleness);
  if constexpr (requires { &Task::round; }) {
    visit_member(fields, name + "/round", tasks, &Task::round);
  } else {
    visit_member(fields, name + "/received", tasks, &Task::received);
    visit_member(fields, name + "/call", tasks, &Task::call);
    visit_member(fields, name + "/repeats", tasks, &Task::repeats);
    visit_member(fields, name + "/probability", tasks, &Task::probability);
    visit_member(fields, name + "/count", tasks, &Task::count);
  }
}

}  // namespace hanse
