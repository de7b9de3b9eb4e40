package rest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// topics are the methods there is help about, in the order of Cutie 5. Names
// are matched without case.
var topics = []struct {
	name    string // as on the command line
	help    state.Help
	aliases []string
}{
	{"help", state.Help{
		Method:  "Help",
		Summary: "Help about the service or one of its methods",
		Request: "GET /help[/METHOD]",
		Text: "The form of help, state and errors is chosen by ?t=anvl|json or by Accept;\n" +
			"?h on any request asks for help about its method, ?V for the version.\n" +
			"Q is the identifier or name of a queue, percent-encoded; J that of a job.",
	}, nil},
	{"getServiceState", state.Help{
		Method: "Get-service-state", Summary: "State of the service with references to its queues",
		Request: "GET /state",
		Text:    "Errors: 415 unsupported form.",
	}, nil},
	{"getQueueState", state.Help{
		Method: "Get-queue-state", Summary: "State of a queue with references to its jobs",
		Request: "GET /state/Q[?status=pending|consumed|deleted][&after=J][&limit=N]",
		Text: "limit is how many jobs are listed, 0 to 1000, by default 100; jobsNext refers\n" +
			"to the rest. Errors: 404 queue not found, 415.",
	}, nil},
	{"getJobState", state.Help{
		Method: "Get-job-state", Summary: "State of a job",
		Request: "GET /state/Q/J",
		Text:    "Errors: 404 queue or job not found, 415.",
	}, nil},
	{"createQueue", state.Help{
		Method: "Create-queue", Summary: "Make an empty queue",
		Request: "PUT /state/Q",
		Text: "The body, if any, gives name, description, cullingSizeThreshold (jobs),\n" +
			"cullingAgeThreshold (hours), verifyOnRead and verifyOnWrite (true or false) as\n" +
			"a form, as ANVL or as JSON. Answers 201. Errors: 409 queue exists already.",
	}, nil},
	{"submitJob", state.Help{
		Method: "Submit-job", Summary: "Put jobs at the end of a queue",
		Request: "POST /content/Q[?filename=][&sidecar=][&digest-type=&digest-value=]",
		Text: "The body is the payload, of any media type; or multipart/form-data with the\n" +
			"parts file (repeated for several jobs, all or nothing), and for a single job\n" +
			"sidecar, digest-type and digest-value. Digests may come in the headers\n" +
			"Content-Digest, Repr-Digest and Content-MD5, the sidecar percent-encoded in\n" +
			"Cutie-Sidecar, the filename in Content-Disposition. Answers 201 with Location.\n" +
			"Errors: 400 digest verification failed, 404, 408 body too slow, 413 too large,\n" +
			"415, 507 out of space.",
	}, []string{"put"}},
	{"getNextJob", state.Help{
		Method: "Get-next-job", Summary: "Take the job at the head of a queue",
		Request: "POST /consume/Q[?max=N][&wait=SECONDS]",
		Text: "Answers 200 with multipart/form-data (parts payload and sidecar), or as Accept\n" +
			"prefers multipart/mixed or the bare payload (application/octet-stream);\n" +
			"Content-Location names the job. With max, up to 1000 jobs come as the parts of\n" +
			"multipart/mixed. With wait, it waits up to 60 seconds for a job. 204: the queue\n" +
			"is empty. Errors: 404 queue not found.",
	}, []string{"get"}},
	{"peekAtJob", state.Help{
		Method: "Peek-at-job", Summary: "Look at a job and leave it where it is",
		Request: "GET /content/Q[/J]",
		Text: "Without J it is the job at the head, else a job of any status. Answers as\n" +
			"Get-next-job. Errors: 404 queue or job not found.",
	}, []string{"peek", "peekJob"}},
	{"deleteJob", state.Help{
		Method: "Delete-job", Summary: "Take a pending job out of the queue",
		Request: "DELETE /content/Q/J",
		Text: "Answers 202, also if it was deleted before. Errors: 404, 409 the job was\n" +
			"consumed.",
	}, []string{"rm", "deleteItem"}},
	{"requeueJob", state.Help{
		Method: "Requeue-job", Summary: "Put a consumed or deleted job back in its place",
		Request: "POST /requeue/Q/J",
		Text:    "Answers 200, also if it is pending already. Errors: 404.",
	}, nil},
}

// help is Help (Cutie 5.1).
func (h *Handler) help(w http.ResponseWriter, r *request) error {
	return h.helpAbout(w, r, r.PathValue("method"))
}

// helpAbout answers with help about a topic, or about the service if it is "".
func (h *Handler) helpAbout(w http.ResponseWriter, r *request, topic string) error {
	var help state.Help
	if topic == "" {
		help = overview()
	} else {
		found := false
		if help, found = find(topic); !found {
			return &Error{http.StatusNotFound, fmt.Sprintf("no help about %.40q, see /help", topic)}
		}
	}
	// A person who asks for no form gets text.
	t, _, err := r.param("t")
	if err != nil {
		return err
	}
	if a := state.ParseAccept(r.Header.Get("Accept")); t == "" {
		q := a.Quality("text/plain")
		if q > 0 && q >= a.Quality(state.JSON.MediaType()) && q >= a.Quality(state.ANVL.MediaType()) {
			return text(w, plain(help))
		}
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	d := state.OfHelp(help)
	h.answer(w, http.StatusOK, form, &d)
	return nil
}

func overview() state.Help {
	help := state.Help{Summary: "Cutie, a directory-based queuing service"}
	var b strings.Builder
	for _, t := range topics {
		help.Methods = append(help.Methods, t.name)
		b.WriteString(t.help.Request + "\n    " + t.help.Summary + "\n")
	}
	help.Text = b.String()
	return help
}

func find(topic string) (state.Help, bool) {
	for _, t := range topics {
		for _, name := range append([]string{t.name, t.help.Method}, t.aliases...) {
			if strings.EqualFold(name, topic) {
				return t.help, true
			}
		}
	}
	return state.Help{}, false
}

func plain(h state.Help) string {
	s := h.Summary + "\n\n"
	if h.Request != "" {
		s += h.Request + "\n\n"
	}
	return s + strings.TrimSuffix(h.Text, "\n") + "\n"
}

// version answers with what the service is an implementation of.
func (h *Handler) version(w http.ResponseWriter) error {
	return text(w, queuefs.Scheme+"\n")
}

func text(w http.ResponseWriter, s string) error {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(s)))
	header["X-Content-Type-Options"] = noSniff
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(s)) // nobody is left to be told
	return nil
}
