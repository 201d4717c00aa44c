#include <algorithm>

#include <gtest/gtest.h>

#include "data/pictures/picture_folder.hpp"
#include "support.hpp"

namespace hanse {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

class PictureFolderTest : public testing::Test {
 protected:
  // Files of no content: nothing opens them.
  void put(const Strings& names) {
    for (const std::string& name : names) {
      fs::create_directories(fs::path(folder_.file(name)).parent_path());
      folder_.write(name, "");
    }
  }
  PictureFolder list() const { return list_pictures(folder_.path()); }
  // Each picture as "PATH LABEL"; "|" stands before the test part.
  Strings listed() const {
    const PictureFolder found = list();
    Strings lines;
    for (const auto& [path, label] : found.files) {
      if (found.test_begin == std::ssize(lines)) lines.emplace_back("|");
      lines.push_back(path.substr(folder_.path().size() + 1) + " " + std::to_string(label));
    }
    return lines;
  }
  void expect_bad(const Strings& parts) {
    expect_invalid([&] { list(); }, parts);
  }
  TempFolder folder_;
};

TEST_F(PictureFolderTest, ClassesAndTheirPicturesAreSorted) {
  put({"dog/b.png", "dog/a/2.JPG", "Cow/1.jpeg", "cat/10.PNG", "cat/9.png"});
  EXPECT_EQ(list().classes, (Strings{"Cow", "cat", "dog"}));
  EXPECT_EQ(listed(), (Strings{"Cow/1.jpeg 0", "cat/10.PNG 1", "cat/9.png 1", "dog/a/2.JPG 2",
                               "dog/b.png 2"}));
  EXPECT_TRUE(list().unread.empty());
}

TEST_F(PictureFolderTest, HiddenFoldersAndFilesAreNoData) {
  put({"cat/1.png", "dog/1.png", ".ipynb_checkpoints/1-checkpoint.png", ".git/1.png",
       "__MACOSX/cat/1.png", "cat/.ipynb_checkpoints/1-checkpoint.png", "cat/@eaDir/1.png",
       "cat/deep/.AppleDouble/1.png", "cat/deep/2.png", "cat/._1.png", ".DS_Store",
       "dog/Thumbs.db"});
  EXPECT_EQ(list().classes, (Strings{"cat", "dog"}));
  EXPECT_EQ(listed(), (Strings{"cat/1.png 0", "cat/deep/2.png 0", "dog/1.png 1"}));
  EXPECT_EQ(list().unread, (Strings{"1 .db file", "2 hidden files", "6 hidden folders"}));
}

TEST_F(PictureFolderTest, HiddenFoldersOfParts) {
  put({"train/cat/1.png", "train/.cache/1.png", "test/cat/2.png", "test/.cache/1.png",
       ".train/dog/1.png"});
  EXPECT_EQ(listed(), (Strings{"train/cat/1.png 0", "|", "test/cat/2.png 0"}));
  EXPECT_EQ(list().unread, (Strings{"3 hidden folders"}));
}

TEST_F(PictureFolderTest, FilesOfOtherEndingsAreCounted) {
  put({"cat/1.png", "cat/2.bmp", "cat/3.BMP", "cat/4.webp", "cat/README", "cat/deep/5.tif",
       "dog/6.png", "1.png", "labels.csv"});
  EXPECT_EQ(listed(), (Strings{"cat/1.png 0", "dog/6.png 1"}));
  EXPECT_EQ(list().unread,
            (Strings{"2 .bmp files", "1 .csv file", "1 .tif file", "1 .webp file", "1 other file",
                     "1 picture outside of the folders of classes"}));
  for (int i = 10; i < 20; ++i) put({"cat/x." + std::to_string(i)});
  EXPECT_EQ(list().unread.size(), 7U);  // of six endings, others, pictures outside
}

TEST_F(PictureFolderTest, AClassWithoutAPictureTellsWhatItHas) {
  put({"cat/1.png", "dog/1.bmp", "dog/2.bmp", "dog/a/3.gif", "dog/._4.png"});
  expect_bad(
      {"the folder of a class has no picture (.png, .jpg, .jpeg), but 2 .bmp files, 1 .gif "
       "file, 1 hidden file (" +
       folder_.file("dog") + ")"});
  fs::remove_all(folder_.file("dog"));
  fs::create_directory(folder_.file("dog"));
  expect_bad({"has no picture", "it is empty", folder_.file("dog")});
  fs::remove_all(folder_.file("dog"));
  fs::remove_all(folder_.file("cat"));
  put({"1.png", "2.jpg", "labels.csv"});
  expect_bad({"no folder of a class, but 1 .csv file, 2 pictures", folder_.path()});
}

TEST_F(PictureFolderTest, NamesOfParts) {
  for (const auto& [train, test] :
       std::vector<std::pair<std::string, std::string>>{{"train", "test"},
                                                        {"Train", "Test"},
                                                        {"TRAIN", "TEST"},
                                                        {"training", "testing"},
                                                        {"Training", "Testing"},
                                                        {"train", "Testing"}}) {
    put({train + "/cat/1.png", train + "/dog/2.png", test + "/dog/3.png"});
    EXPECT_EQ(list().classes, (Strings{"cat", "dog"}));
    EXPECT_EQ(listed(), (Strings{train + "/cat/1.png 0", train + "/dog/2.png 1", "|",
                                 test + "/dog/3.png 1"}));
    EXPECT_TRUE(list().unread.empty());
    fs::remove_all(folder_.file(train));
    fs::remove_all(folder_.file(test));
  }
}

TEST_F(PictureFolderTest, PicturesForValidationAreNotReadAndThoseWithoutClassesNeither) {
  put({"train/cat/1.png", "test/cat/2.png", "val/cat/3.png", "val/cat/4.png", "val/n.txt"});
  EXPECT_EQ(listed(), (Strings{"train/cat/1.png 0", "|", "test/cat/2.png 0"}));
  EXPECT_EQ(list().unread, (Strings{"2 pictures in val"}));
  // Pictures of a competition, whose classes nobody tells.
  fs::remove_all(folder_.file("test/cat"));
  put({"test/1.png", "test/2.png", "test/3.png"});
  for (const std::string name : {"val", "Valid", "validation"}) {
    if (name != "val") fs::rename(folder_.file("val"), folder_.file(name));
    EXPECT_EQ(listed(), (Strings{"train/cat/1.png 0"}));
    Strings unread = list().unread;
    std::ranges::sort(unread);
    EXPECT_EQ(unread, (Strings{"2 pictures in " + name, "3 pictures in test"}));
    if (name != "val") fs::rename(folder_.file(name), folder_.file("val"));
  }
  fs::remove_all(folder_.file("test"));
  put({"test/images/1.png", "test/images/2.png"});  // as in Tiny ImageNet
  EXPECT_EQ(listed(), (Strings{"train/cat/1.png 0"}));
  EXPECT_EQ(list().unread, (Strings{"2 pictures in test", "2 pictures in val"}));
  fs::remove_all(folder_.file("test"));
  fs::create_directory_symlink("val", folder_.file("test"));
  EXPECT_EQ(listed(), (Strings{"train/cat/1.png 0", "|", "test/cat/3.png 0", "test/cat/4.png 0"}));
}

TEST_F(PictureFolderTest, FoldersThatMayBePartsOrClassesAreRefused) {
  const auto refuse = [&](const Strings& files, const Strings& parts) {
    TempFolder folder;
    for (const std::string& name : files) {
      fs::create_directories(fs::path(folder.file(name)).parent_path());
      folder.write(name, "");
    }
    expect_invalid([&] { list_pictures(folder.path()); }, parts);
  };
  refuse({"train/a/1.png", "Train/a/1.png"}, {"Train and train are both"});
  refuse({"train/a/1.png", "test/a/1.png", "Testing/a/1.png"}, {"Testing and test are both"});
  refuse({"train/a/1.png", "cat/1.png"}, {"train and cat lie side by side", "is train a class"});
  refuse({"bus/1.png", "train/1.png"},
         {"train and bus lie side by side", "folders of all classes"});
  refuse({"cat/1.png", "dog/1.png", "test/1.png"},
         {"test and cat lie side by side", "is test a class", "into a folder train"});
  refuse({"invalid/1.png", "valid/1.png"}, {"valid and invalid lie side by side"});
  refuse({"test/cat/1.png", "val/cat/1.png"}, {"a folder test, but none for training"});
  refuse({"pets/train/cat/1.png", "pets/test/cat/2.png"},
         {"the folder pets has a folder train: is it a class?", "/pets"});
  refuse({"pets/cat/1.png", "pets/dog/2.png"}, {"the folder pets is the only one", "/pets"});
  refuse({"train/cat/1.png", "test/cat/2.png", "test/dog/1.png"},
         {"class dog has test pictures alone", "/test"});
}

// Domains, or clients, with the classes in each.
TEST_F(PictureFolderTest, FoldersOfTheSameNamesAreNoClasses) {
  const Strings domains = {"art/cat/1.png",   "art/dog/2.png",    "photo/cat/3.png",
                           "photo/dog/4.png", "sketch/cat/5.png", "sketch/elk/6.png"};
  put(domains);
  expect_bad({"the folders art and photo hold folders of the same names (cat)", folder_.path(),
              "data.path = " + folder_.path() + "/art reads", "hanse.write_federation"});
  fs::create_directories(folder_.file("train"));
  for (const char* name : {"art", "photo", "sketch"}) {
    fs::rename(folder_.file(name), folder_.file(std::string("train/") + name));
  }
  expect_bad({"hold folders of the same names", "/train"});
}

TEST_F(PictureFolderTest, ClassesMayHoldFolders) {
  put({"cat/images/1.png", "dog/images/2.png"});  // one name
  EXPECT_EQ(list().classes, (Strings{"cat", "dog"}));
  put({"cat/a/1.png", "dog/b/2.png", "elk/c/1.png", "elk/d/1.png"});  // others
  EXPECT_EQ(list().classes, (Strings{"cat", "dog", "elk"}));
  put({"cat/b/1.png", "dog/a/2.png", "elk/a/2.png", "elk/3.png"});  // a picture beside them
  EXPECT_EQ(list().classes, (Strings{"cat", "dog", "elk"}));
}

TEST_F(PictureFolderTest, InsideOfTrainAnyNameIsAClass) {
  put({"train/train/1.png", "train/test/2.png", "extra/notes.txt"});
  EXPECT_EQ(list().classes, (Strings{"test", "train"}));
  EXPECT_EQ(list().unread, (Strings{"1 .txt file"}));
}

TEST_F(PictureFolderTest, LinksAreFollowedOnce) {
  put({"cat/1.png", "dog/2.png"});
  TempFolder elsewhere;
  elsewhere.write("3.png", "");
  elsewhere.write("4.bmp", "");
  fs::create_directory_symlink(elsewhere.path(), folder_.file("elk"));
  fs::create_directory_symlink(elsewhere.path(), folder_.file("cat/more"));
  fs::create_directory_symlink(folder_.path(), folder_.file("dog/up"));
  fs::create_symlink(folder_.file("cat/1.png"), folder_.file("dog/5.png"));
  fs::create_symlink("nowhere", folder_.file("dog/6.png"));
  EXPECT_EQ(listed(), (Strings{"cat/1.png 0", "cat/more/3.png 0", "dog/2.png 1", "dog/5.png 1",
                               "dog/6.png 1", "elk/3.png 2"}));
  EXPECT_EQ(list().unread, (Strings{"2 .bmp files", "1 link to a folder above it"}));
}

TEST_F(PictureFolderTest, NoFolder) {
  expect_invalid([&] { list_pictures(folder_.file("none")); },
                 {"cannot read the folder: No such file", folder_.file("none")});
  expect_invalid([&] { list_pictures(folder_.write("file", "")); },
                 {"cannot read the folder: Not a directory", folder_.file("file")});
}

}  // namespace
}  // namespace hanse
