package rest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

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
	// Help is also plain text, for who likes that best.
	t, _, err := r.param("t")
	if err != nil {
		return err
	}
	if t == "" && likesText(state.ParseAccept(r.Header.Get("Accept"))) {
		return text(w, plain(help))
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	d := state.OfHelp(help)
	d.Base = h.base()
	h.answer(w, http.StatusOK, form, &d)
	return nil
}

func likesText(a state.Accept) bool {
	q := a.Quality("text/plain")
	for f := state.ANVL; f.MediaType() != ""; f++ {
		if a.Quality(f.MediaType()) >= q {
			return false
		}
	}
	return true
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
