"""scripts/check-headers tells a header that stands alone from one that does not."""
import unittest

from support import ScriptTest


class CheckHeadersTest(ScriptTest):
    def test_header_that_includes_what_it_uses(self):
        good = self.write("good.hpp", "#pragma once\n#include <cstdint>\ninline int64_t one();\n"
                          "inline int64_t one() { return 1; }\n")
        result = self.script("check-headers", str(good))
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_header_that_does_not(self):
        bad = self.write("bad.hpp", "#pragma once\ninline std::string name();\n")
        good = self.write("good.hpp", "#pragma once\n")
        result = self.script("check-headers", str(good), str(bad))
        self.assertEqual(result.returncode, 1)
        self.assertIn("bad.hpp:2", result.stdout)
        self.assertNotIn("good.hpp", result.stdout)


if __name__ == "__main__":
    unittest.main()
