package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"cutie/cmd/cutie/history"
)

// A chart is a figure of one or two lines over time. It is drawn here: libraries give
// their colours as style attributes, and the policy of pages allows none. As classes
// they also follow the scheme of the reader, light or dark.
type chart struct {
	Title, Alt string
	Top        string // the greatest figure
	Lines      []line
	Since      string
}

// A line is the path of one figure within a box of 120 to 40.
type line struct{ Name, Now, Path string }

// Size of the box of a chart.
const (
	chartWidth  = 120
	chartHeight = 40
)

// A plot says what a chart shows.
type plot struct {
	title   string
	figures []history.Measure
	names   []string
	unit    func(float64) string
	scale   float64
	quiet   bool // left out while all figures are 0
}

var plots = []plot{
	{title: "Jobs", figures: []history.Measure{history.Pending, history.InWork}, names: []string{"pending", "in work"}, unit: whole},
	{title: "Jobs a second", figures: []history.Measure{history.In, history.Out}, names: []string{"in", "out"}, unit: precise},
	{title: "Failures a minute", figures: []history.Measure{history.Failed}, names: []string{"failed"}, unit: precise, scale: 60},
	{title: "Age of the oldest pending job", figures: []history.Measure{history.Oldest}, names: []string{"oldest"}, unit: lasting},
	{title: "Time of a job", figures: []history.Measure{history.Queued, history.Worked}, names: []string{"in the queue", "in work"}, unit: lasting},
	{title: "Published lists behind", figures: []history.Measure{history.Unpublished}, names: []string{"behind"}, unit: lasting},
	{title: "Mirrors behind, events", figures: []history.Measure{history.MirrorLag}, names: []string{"behind"}, unit: whole, quiet: true},
	{title: "Free disk", figures: []history.Measure{history.FreeDisk}, names: []string{"free"}, unit: size},
	{title: "Memory of the daemon", figures: []history.Measure{history.Memory}, names: []string{"resident"}, unit: size},
}

// firstCharts is how many charts pages beside those of the history have.
const firstCharts = 4

// charts draws the first charts, at most so many, of the points of a span.
func charts(points []history.Point, span history.Span, most int) (all []chart) {
	for i := range plots {
		if c, ok := plots[i].draw(points, span); ok && len(all) < most {
			all = append(all, c)
		}
	}
	return all
}

// draw returns the chart, false if none of its figures is known.
func (p *plot) draw(points []history.Point, span history.Span) (chart, bool) {
	c := chart{Title: p.title, Since: spanWords[span]}
	rows := make([][]float64, len(p.figures))
	top, some := 0.0, false
	for i, m := range p.figures {
		rows[i] = p.row(points, m, chartWidth)
		for _, f := range rows[i] {
			if !math.IsNaN(f) {
				top, some = max(top, f), true
			}
		}
	}
	if !some || p.quiet && top == 0 {
		return c, false
	}
	c.Top = p.unit(top)
	var said []string
	for i, row := range rows {
		l := line{Name: p.names[i], Now: "–", Path: pathOf(row, top)}
		for n := len(points) - 1; n >= len(points)-3; n-- { // the last step may have no figure yet
			if f := float64(points[n][p.figures[i]]); !math.IsNaN(f) {
				l.Now = p.unit(f * p.factor())
				break
			}
		}
		said = append(said, l.Name+" "+l.Now)
		c.Lines = append(c.Lines, l)
	}
	c.Alt = fmt.Sprintf("%s over the last %s: now %s, at most %s", p.title, spanTimes[span], strings.Join(said, ", "), c.Top)
	return c, true
}

var (
	spanWords = [history.Spans]string{"1 hour ago", "1 day ago", "30 days ago"}
	spanTimes = [history.Spans]string{"hour", "day", "30 days"}
)

func (p *plot) factor() float64 {
	if p.scale != 0 {
		return p.scale
	}
	return 1
}

// row joins the figures of points to n, the greatest of each part.
func (p *plot) row(points []history.Point, m history.Measure, n int) []float64 {
	row := make([]float64, n)
	for i := range row {
		row[i] = math.NaN()
		for _, point := range points[i*len(points)/n : (i+1)*len(points)/n] {
			if f := float64(point[m]); !math.IsNaN(f) && !(row[i] >= f) {
				row[i] = f
			}
		}
		row[i] *= p.factor()
	}
	return row
}

// pathOf returns a path through figures from 0 to top, with gaps for unknown ones. A gap
// of one figure is drawn over.
func pathOf(row []float64, top float64) string {
	var b []byte
	last := -3
	for x, f := range row {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		y := float64(chartHeight)
		if top > 0 {
			y -= (chartHeight - 2) * f / top
		}
		command := byte('L')
		if x-last > 2 {
			command = 'M'
		}
		b = append(b, command)
		b = strconv.AppendInt(b, int64(x), 10)
		b = append(b, ' ')
		b = strconv.AppendFloat(b, math.Round(y*10)/10, 'f', -1, 64)
		if command == 'M' {
			b = append(b, "h1"...) // one figure alone is seen
		}
		last = x
	}
	return string(b)
}

func whole(f float64) string { return grouped(strconv.FormatFloat(math.Round(f), 'f', 0, 64)) }

// precise prints three digits.
func precise(f float64) string {
	if f >= 100 {
		return whole(f)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

func size(f float64) string {
	if s := octets(int64(f)); s != "" {
		return s
	}
	return whole(f) + " B"
}

// lasting prints seconds in a suitable unit.
func lasting(f float64) string {
	switch {
	case f < 1:
		return strconv.FormatFloat(math.Round(f*1000), 'f', 0, 64) + " ms"
	case f < 120:
		return precise(f) + " s"
	case f < 2*3600:
		return whole(f/60) + " min"
	case f < 48*3600:
		return precise(f/3600) + " h"
	}
	return precise(f/86400) + " days"
}

// A historyPage has all charts of the service or of a queue.
type historyPage struct {
	head
	Charts  []chart
	Spans   []link // the chosen one without a reference
	Columns []string
	Rows    [][]string
	None    string
}

// tableRows is how many rows the table of a history has.
const tableRows = 24

// History returns the page of the history of a queue, "" for the service. points are nil
// if there is none.
func History(v Site, queue, name string, span history.Span, points []history.Point, now time.Time) []byte {
	way := []crumb{{Class: "step", Text: "Charts"}}
	title := "Charts of the service"
	if queue != "" {
		way = []crumb{{"step", v.page("state", queue), queue}, {Class: "step", Text: "Charts"}}
		title = "Charts of queue " + name
	}
	p := &historyPage{head: v.head(title, way...)}
	self := v.Base.Ref("history")
	if queue != "" {
		self = v.Base.Ref("history", queue)
	}
	for s := range history.Spans {
		l := link{self + "?span=" + s.String(), s.String()}
		if s == span {
			l.Ref = ""
		}
		p.Spans = append(p.Spans, l)
	}
	if points == nil {
		p.None = fmt.Sprintf("There are figures of the %d busiest queues only. This queue had no activity lately.", history.Queues)
	} else {
		p.Charts = charts(points, span, len(plots))
		p.tabulate(points, span, now)
	}
	return v.write("history", p)
}

// tabulate adds the table.
func (p *historyPage) tabulate(points []history.Point, span history.Span, now time.Time) {
	var columns [][]string
	for i := range plots {
		one := &plots[i]
		for k, m := range one.figures {
			row := one.row(points, m, tableRows)
			column, some := make([]string, tableRows), false
			for n, f := range row {
				if column[n] = "–"; !math.IsNaN(f) {
					column[n], some = one.unit(f), true
				}
			}
			if some {
				columns = append(columns, column)
				p.Columns = append(p.Columns, one.title+", "+one.names[k])
			}
		}
	}
	step := span.Step() * history.Points / tableRows
	for n := tableRows - 1; n >= 0; n-- {
		row := []string{now.Add(-step * time.Duration(tableRows-1-n)).UTC().Format("01-02 15:04")}
		some := false
		for _, c := range columns {
			row, some = append(row, c[n]), some || c[n] != "–"
		}
		if some {
			p.Rows = append(p.Rows, row)
		}
	}
}
