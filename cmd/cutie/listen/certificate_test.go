package listen

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestCertificateThatIsNoFileIsRefusedAtOnce(t *testing.T) {
	fifo := t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fifo, os.DevNull} {
		if _, err := LoadCertificate(name, name); err == nil || !strings.Contains(err.Error(), name+" is no regular file") {
			t.Errorf("got %v, want that %s is no regular file", err, name)
		}
	}
}
