// Go's httputil.ReverseProxy as the gateway: 64 KiB buffers from a pool, flushed after every write.
package main

import (
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

const bufferSize = 64 << 10

// bufferPool keeps pointers, because a slice put into a sync.Pool is itself allocated on every Put.
type bufferPool struct{ pool sync.Pool }

func newBufferPool() *bufferPool {
	return &bufferPool{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

func (p *bufferPool) Get() []byte { return p.pool.Get().(*[bufferSize]byte)[:] }

func (p *bufferPool) Put(buffer []byte) { p.pool.Put((*[bufferSize]byte)(buffer)) }

func main() {
	listen := flag.String("listen", "", "HOST:PORT to listen on")
	origin := flag.String("origin", "", "origin's URL")
	flag.Parse()

	target, err := url.Parse(*origin)
	if err != nil {
		log.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(target) },
		FlushInterval: -1,
		BufferPool:    newBufferPool(),
		ErrorLog:      log.New(io.Discard, "", 0),
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     300 * time.Second,
			DisableCompression:  true,
		},
	}
	server := &http.Server{Addr: *listen, Handler: proxy, IdleTimeout: 300 * time.Second}
	log.Fatal(server.ListenAndServe())
}
