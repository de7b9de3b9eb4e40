package rest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// help is Help (Cutie 5.1).
func (h *Handler) help(w http.ResponseWriter, r *request) error {
	about := r.PathValue("method")
	if about == "" {
		return h.answerHelp(w, r, overview(h.table()))
	}
	for _, row := range h.table() {
		for _, name := range append([]string{row.help.Name, row.help.Method}, row.help.Aliases...) {
			if strings.EqualFold(name, about) {
				return h.answerHelp(w, r, row.help.Help)
			}
		}
	}
	return web.Errorf(http.StatusNotFound, "no help about %.40q, see /help", about)
}

func (h *Handler) answerHelp(w http.ResponseWriter, r *request, help state.Help) error {
	// Help is also plain text, for clients that prefer it.
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

// overview lists the methods in the order of their first rows.
func overview(table []row) state.Help {
	help := state.Help{Summary: "Cutie, a directory-based queuing service"}
	var b strings.Builder
	for _, row := range table {
		if !slices.Contains(help.Methods, row.help.Name) {
			help.Methods = append(help.Methods, row.help.Name)
			b.WriteString(row.help.Request + "\n    " + row.help.Summary + "\n")
		}
	}
	help.Text = b.String()
	return help
}

func plain(h state.Help) string {
	s := h.Summary + "\n\n"
	if h.Request != "" {
		s += h.Request + "\n\n"
	}
	return s + strings.TrimSuffix(h.Text, "\n") + "\n"
}

// version answers with the name and version of the implementation.
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
