# A template: `just release-files` fills the version and the sum in, the release workflow attaches
# the formula to the release, and from there it goes into a tap.
class MochiServer < Formula
  desc "Headless server for conversations with language models"
  homepage "https://github.com/mochi-server/mochi-server"
  url "https://github.com/mochi-server/mochi-server/releases/download/v@VERSION@/mochi_server-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "uv" => :build
  depends_on "python@3.13"

  # The libraries in wheels have no room for the longer names that Homebrew gives.
  preserve_rpath

  def install
    ENV["UV_PROJECT_ENVIRONMENT"] = libexec
    ENV["UV_PYTHON"] = Formula["python@3.13"].opt_bin/"python3.13"
    ENV["UV_PYTHON_DOWNLOADS"] = "never"
    ENV["UV_LINK_MODE"] = "copy"
    # As in the image: the constraints in pyproject.toml choose the versions that were tested.
    system "uv", "sync", "--no-default-groups", "--no-editable", "--no-cache"
    bin.install_symlink libexec/"bin/mochi-server"
  end

  service do
    run [opt_bin/"mochi-server", "--data-dir", var/"mochi-server"]
    keep_alive true
    log_path var/"log/mochi-server.log"
    error_log_path var/"log/mochi-server.log"
  end

  test do
    assert_equal version.to_s, shell_output("#{bin}/mochi-server --version").strip
    ENV["MOCHI_TEST_MODE"] = "true"
    assert_match "ipsum", shell_output("#{bin}/mochi-server send new Hello 2>/dev/null")
  end
end
