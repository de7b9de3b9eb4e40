package daemon

import (
	"errors"
	"io"
	"net/http"
	"testing"
)

// A handler that breaks its answer off does so in this process as it does over
// a network: whoever reads notices.
func TestAnswersOfThisProcessMayBreakOff(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"before it has begun": func(http.ResponseWriter) {},
		"in the midst":        func(w http.ResponseWriter) { io.WriteString(w, "half") },
	} {
		inside := &InProcess{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			begin(w)
			panic(http.ErrAbortHandler)
		})}
		resp, err := (&http.Client{Transport: inside}).Get("http://localhost/")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
		resp.Body.Close()
		inside.Close()
	}
}
