//go:build !race

package rest_test

// The validator is large, and its test has one goroutine.

import (
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

func TestTheDescriptionIsValid(t *testing.T) {
	text, err := described()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, errs := v.ValidateDocument(); !ok {
		for _, e := range errs {
			t.Errorf("%s: %s", e.Message, e.Reason)
		}
	}
	broken, err := libopenapi.NewDocument([]byte(strings.Replace(string(text), `"in": "path"`, `"in": "nowhere"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if v, errs = validator.NewValidator(broken); len(errs) == 0 {
		if ok, _ := v.ValidateDocument(); ok {
			t.Error("the validator finds no fault in a broken document")
		}
	}
}
