package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// olderUWS is a service of version 1.0: it knows no LAST and does not wait. Its one job
// ends while it is asked for. The list at /parts comes in parts.
func olderUWS(t *testing.T) (base string, asked *[]string) {
	asked = new([]string)
	const ns = `xmlns:u="http://www.ivoa.net/xml/UWS/v1.0" xmlns:l="http://www.w3.org/1999/xlink"`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /async", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<u:jobs `+ns+`><u:jobref id="2"><u:phase>HELD</u:phase></u:jobref><u:jobref id="1"><u:phase>ERROR</u:phase></u:jobref></u:jobs>`)
	})
	mux.HandleFunc("GET /parts", func(w http.ResponseWriter, r *http.Request) {
		n := 1 + strings.Count(r.URL.RawQuery, "x")
		w.Header().Set("Link", `<?`+strings.Repeat("x", n)+`>; rel="next"`)
		fmt.Fprintf(w, `<u:jobs %s><u:jobref id="%d"/><u:jobref id="%d"/></u:jobs>`, ns, 2*n-1, 2*n)
	})
	mux.HandleFunc("POST /async", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/async/1?"+r.PostFormValue("QUERY"), http.StatusSeeOther)
	})
	mux.HandleFunc("GET /async/1", func(w http.ResponseWriter, r *http.Request) {
		phase := "EXECUTING"
		if *asked = append(*asked, r.URL.RawQuery); len(*asked) > 1 {
			phase = "COMPLETED"
		}
		fmt.Fprintf(w, `<u:job %s><u:phase>%s</u:phase><u:results><u:result id="r" l:href="../files/r"/></u:results></u:job>`, ns, phase)
	})
	mux.HandleFunc("GET /files/r", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "result") })
	mux.HandleFunc("POST /async/1/phase", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "ended already\nlong ago", http.StatusForbidden)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL, asked
}

func TestOtherServicesOfUWSAreUsed(t *testing.T) {
	t.Parallel()
	base, asked := olderUWS(t)
	for _, c := range []struct{ args, out, err string }{
		{"list /async --last 1", "2\tHELD\t\t\n", ""},
		{"list /parts --last 5", "1\t\t\t\n2\t\t\t\n3\t\t\t\n4\t\t\t\n5\t\t\t\n", ""},
		{"create /async QUERY=x", base + "/async/1?x\n", ""},
		{"wait /async/1", "COMPLETED\n", ""},
		{"result /async/1", "r\n", ""},
		{"result /async/1 r", "result", ""},
		{"result /async/1 none", "", "exit status 3: cutie: uws: none: result not found"},
		{"run /async/1", "", "exit status 6: cutie: uws: " + base + "/async/1/phase: refused: ended already\n"},
		{"show /async/2", "", "exit status 3: cutie: uws: " + base + "/async/2: job not found"},
		{"delete /async/1", "", "exit status 1: cutie: uws: " + base + "/async/1: Method Not Allowed"},
	} {
		args := strings.Fields(c.args)
		args[1] = base + args[1]
		out, err := cutie(t, append([]string{"uws"}, args...)...)
		if out != c.out || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) {
			t.Errorf("%s: got %q, %v, want %q, %s", c.args, out, err, c.out, c.err)
		}
	}
	if want := []string{"", "", "", "", ""}; !slices.Equal(*asked, want) {
		t.Errorf("the job was asked for with %q, want %q: 1.0 does not wait", *asked, want)
	}
}
