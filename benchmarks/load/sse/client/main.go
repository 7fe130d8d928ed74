// The client of event streams: opens -streams of them and checks that each event arrives once, in order, unaltered.
//
// It prints {"phase": "connected"} when every stream has had its first event, counts between the lines "begin" and "end"
// on its standard input, so that whoever reads the gateway's CPU time knows the window, and then prints its report.
// Latency is from the origin's clock just before its write to ours just after our read: origin, gateway and client
// are on one machine and share that clock. A gap is what lies between two reads of one stream, or between the last one and
// the end.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"penstock/benchmarks/sse/event"
)

type report struct {
	Events     int     `json:"events"`
	Seconds    float64 `json:"seconds"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	P999       float64 `json:"p999_us"`
	Max        float64 `json:"max_us"`
	GapP999    float64 `json:"gap_p999_us"`
	GapMax     float64 `json:"gap_max_us"`
	Segments   int64   `json:"segments"`
	Failures   int64   `json:"failures"`
	FirstError string  `json:"first_error"`
}

type client struct {
	http     http.Client
	url      string
	major    int
	started  atomic.Int64
	counting atomic.Bool
	failures atomic.Int64
	segments atomic.Int64

	mutex      sync.Mutex
	latencies  []int64
	sent       []int64
	gaps       []int64
	last       []int64
	firstError string
}

func (c *client) fail(stream int, err error) {
	c.failures.Add(1)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.firstError == "" {
		c.firstError = fmt.Sprintf("stream %d: %v", stream, err)
	}
}

// follow reads one stream until the context ends; any other end is an error.
func (c *client) follow(ctx context.Context, stream int, connecting chan struct{}) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return err
	}
	connecting <- struct{}{}
	response, err := c.http.Do(request)
	<-connecting
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	if c.major > 0 && response.ProtoMajor != c.major {
		return fmt.Errorf("HTTP/%d where HTTP/%d was asked for", response.ProtoMajor, c.major)
	}
	var buffer [event.Size]byte
	for expected := int64(0); ; expected++ {
		if _, err := io.ReadFull(response.Body, buffer[:]); err != nil {
			return err
		}
		now := time.Now().UnixNano()
		sequence, sent, err := event.Parse(&buffer)
		if err != nil {
			return err
		}
		if sequence != expected {
			return fmt.Errorf("event %d where %d was due", sequence, expected)
		}
		if now < sent {
			return fmt.Errorf("the clock went back by %d ns", sent-now)
		}
		if expected == 0 {
			c.started.Add(1)
		}
		c.mutex.Lock()
		if c.counting.Load() {
			c.latencies = append(c.latencies, now-sent)
			c.sent = append(c.sent, sent)
			if expected > 0 {
				c.gaps = append(c.gaps, now-c.last[stream])
			}
		}
		c.last[stream] = now
		c.mutex.Unlock()
	}
}

// fetch asks for a segment -rate times a second, whether earlier answers have come or not.
func (c *client) fetch(ctx context.Context, url string, rate int) {
	ticks := time.NewTicker(time.Second / time.Duration(rate))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		go func() {
			response, err := c.http.Get(url)
			if err == nil {
				defer response.Body.Close()
				var count int64
				count, err = io.Copy(io.Discard, response.Body)
				if err == nil && (response.StatusCode != http.StatusOK || count != response.ContentLength) {
					err = fmt.Errorf("status %d, %d of %d bytes", response.StatusCode, count, response.ContentLength)
				}
			}
			if err != nil && ctx.Err() == nil {
				c.fail(-1, err)
				return
			}
			if c.counting.Load() {
				c.segments.Add(1)
			}
		}()
	}
}

// write leaves "SENT LATENCY" of each counted event, in nanoseconds.
func (c *client) write(path string) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(file)
	for index, sent := range c.sent {
		fmt.Fprintln(lines, sent, c.latencies[index])
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// percentile gives microseconds of sorted nanoseconds.
func percentile(values []int64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return float64(values[int(share*float64(len(values)-1))]) / 1000
}

func (c *client) report(window time.Duration) report {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, last := range c.last {
		if last > 0 {
			c.gaps = append(c.gaps, time.Now().UnixNano()-last)
		}
	}
	slices.Sort(c.latencies)
	slices.Sort(c.gaps)
	return report{
		Events: len(c.latencies), Seconds: window.Seconds(),
		P50: percentile(c.latencies, 0.5), P99: percentile(c.latencies, 0.99),
		P999: percentile(c.latencies, 0.999), Max: percentile(c.latencies, 1),
		GapP999: percentile(c.gaps, 0.999), GapMax: percentile(c.gaps, 1),
		Segments: c.segments.Load(), Failures: c.failures.Load(), FirstError: c.firstError,
	}
}

func printLine(value any) {
	if err := json.NewEncoder(os.Stdout).Encode(value); err != nil {
		log.Fatal(err)
	}
}

func main() {
	url := flag.String("url", "", "the event stream's URL")
	streams := flag.Int("streams", 1000, "how many to follow at once")
	patience := flag.Duration("patience", 30*time.Second, "until every stream must have had its first event")
	journal := flag.String("journal", "", "a file for the time and the latency of each counted event")
	segment := flag.String("segment", "", "the URL of a segment to ask for meanwhile")
	rate := flag.Int("segment-rate", 100, "how often a second")
	http2 := flag.Bool("http2", false, "by HTTP/2, if the URL is https: on as many connections as the server's limit asks for")
	flag.Parse()

	c := &client{url: *url, http: http.Client{Transport: &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 1024,
		ForceAttemptHTTP2: *http2, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}}
	if strings.HasPrefix(*url, "https:") {
		c.major = 1
		if *http2 {
			c.major = 2
		}
	}
	c.latencies = make([]int64, 0, 1<<20)
	c.last = make([]int64, *streams)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// As many as a listener's backlog surely holds: the measurement is of streams, not of a rush of connections.
	connecting := make(chan struct{}, 64)
	for stream := 0; stream < *streams; stream++ {
		go func() {
			if err := c.follow(ctx, stream, connecting); ctx.Err() == nil {
				c.fail(stream, err)
			}
		}()
	}
	deadline := time.Now().Add(*patience)
	for c.started.Load()+c.failures.Load() < int64(*streams) {
		if time.Now().After(deadline) {
			log.Fatalf("%d of %d streams had an event within %v; first error: %q",
				c.started.Load(), *streams, *patience, c.report(0).FirstError)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if *segment != "" {
		go c.fetch(ctx, *segment, *rate)
	}
	printLine(map[string]string{"phase": "connected"})

	var began time.Time
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		switch input.Text() {
		case "begin":
			began = time.Now()
			c.counting.Store(true)
		case "end":
			c.counting.Store(false)
			if *journal != "" {
				// Before the report sorts the latencies.
				if err := c.write(*journal); err != nil {
					log.Fatal(err)
				}
			}
			printLine(c.report(time.Since(began)))
			return
		}
	}
}
