package main_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"cutie/testdata/long"
)

// Tests that can take longer are listed, for a long run of these only.
func TestLongTestsAreListed(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	t.Setenv("CUTIE_LONG_LIST", list)
	long.N(1, 2)
	t.Run("below", func(t *testing.T) { long.On() })
	done := make(chan struct{})
	go outsideOfATest(done)
	<-done
	got, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	pkg := strings.TrimSuffix(reflect.TypeFor[daemon]().PkgPath(), "_test")
	want := pkg + " TestLongTestsAreListed\n" + pkg + " ?\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func outsideOfATest(done chan<- struct{}) {
	long.On()
	close(done)
}
