// The origin of event streams: every request to /events gets -rate events a second until it leaves.
//
// /fixed?events=N gives N events at once that are the same bytes on every request, for comparing checksums.
package main

import (
	"flag"
	"log"
	"math/rand"
	"net/http"
	"strconv"
	"time"

	"penstock/benchmarks/sse/event"
)

func prepare(response http.ResponseWriter) *http.ResponseController {
	response.Header().Set("Content-Type", "text/event-stream")
	response.Header().Set("Cache-Control", "no-cache")
	return http.NewResponseController(response)
}

func endless(interval time.Duration) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		control := prepare(response)
		var buffer [event.Size]byte
		// Streams start at a random point of the interval: in step, a thousand of them would be one burst.
		due := time.Now().Add(time.Duration(rand.Int63n(int64(interval))))
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		for sequence := int64(0); ; sequence++ {
			select {
			case <-request.Context().Done():
				return
			case <-timer.C:
			}
			event.Write(&buffer, sequence, time.Now().UnixNano())
			if _, err := response.Write(buffer[:]); err != nil {
				return
			}
			if control.Flush() != nil {
				return
			}
			due = due.Add(interval)
			timer.Reset(time.Until(due))
		}
	}
}

func fixed(response http.ResponseWriter, request *http.Request) {
	count, err := strconv.ParseInt(request.URL.Query().Get("events"), 10, 64)
	if err != nil {
		http.Error(response, "events: a number is needed", http.StatusBadRequest)
		return
	}
	control := prepare(response)
	var buffer [event.Size]byte
	for sequence := int64(0); sequence < count; sequence++ {
		event.Write(&buffer, sequence, 0)
		if _, err := response.Write(buffer[:]); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
	}
}

func main() {
	listen := flag.String("listen", "", "HOST:PORT to listen on")
	rate := flag.Int("rate", 10, "events a second and stream")
	flag.Parse()
	http.HandleFunc("/events", endless(time.Second/time.Duration(*rate)))
	http.HandleFunc("/fixed", fixed)
	log.Fatal(http.ListenAndServe(*listen, nil))
}
