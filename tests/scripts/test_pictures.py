"""scripts/draw-pictures: the pictures of README.md."""
import unittest
import xml.etree.ElementTree as ElementTree

from support import SCRIPTS, ScriptTest

PICTURES = SCRIPTS / "pictures"


class DrawPicturesTest(ScriptTest):
    def draw(self, run):
        return self.script("draw-pictures", "--run", run, "--out", self.folder / "out")

    def test_pictures(self):
        run = self.make_run("made")
        self.write("made/decisions.csv", "round,p_0,p_1,p_2\n0,0.3,0.3,0.4\n40,0.2,0.3,0.5\n")
        result = self.draw(run)
        self.assertEqual(result.returncode, 0, result.stderr)
        names = ["round.svg", "report.svg"]
        self.assertEqual(result.stdout.split(), [str(self.folder / "out" / name) for name in names])
        for path in map((self.folder / "out").joinpath, names):
            text = path.read_text()
            ElementTree.fromstring(text)
            self.assertIn("prefers-color-scheme:dark", text)
            self.assertNotIn("{c0}", text)
        self.assertIn("Weight of each client", (self.folder / "out/report.svg").read_text())

    def test_the_picture_of_a_round_is_up_to_date(self):
        run = self.make_run("made")
        self.write("made/decisions.csv", "round,p_0\n0,1\n40,1\n")
        self.draw(run)
        self.assertEqual((self.folder / "out/round.svg").read_text(),
                         (PICTURES / "round.svg").read_text())
        ElementTree.parse(PICTURES / "report.svg")

    def test_bad_input(self):
        self.assert_one_line_error(self.draw(self.folder / "none"), "none", "run directory")


if __name__ == "__main__":
    unittest.main()
