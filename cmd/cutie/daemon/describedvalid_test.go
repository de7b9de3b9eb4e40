//go:build !race

package daemon

import (
	"testing"

	"cutie/testdata/openapi"
)

func TestTheDescriptionIsValid(t *testing.T) {
	rows := table()
	text, err := description(&rows)()
	if err != nil {
		t.Fatal(err)
	}
	if err := openapi.Valid(text); err != nil {
		t.Error(err)
	}
}
