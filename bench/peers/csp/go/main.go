// The problems of bench/csp in Go. See ../README.md for the protocol.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A problem does n operations, or a few more: how many, and in which time.
type problem func(n int) (int, time.Duration)

// A count does something once, and has other results than a time.
type count func() map[string]float64

func check(right bool) {
	if !right {
		panic("wrong result")
	}
}

// inOrder are values that have to arrive as 0, 1, 2, ...
type inOrder struct{ next, wrong uint64 }

func (o *inOrder) add(value uint64) {
	o.wrong |= value ^ o.next
	o.next++
}

func (o *inOrder) are(n int) bool { return o.wrong == 0 && o.next == uint64(n) }

// endsInOrder are the first and the last word of items, both of which have to.
type endsInOrder struct{ firsts, lasts inOrder }

func (o *endsInOrder) add(first, last uint64) {
	o.firsts.add(first)
	o.lasts.add(last)
}

func (o *endsInOrder) are(n int) bool { return o.firsts.are(n) && o.lasts.are(n) }

func sumBelow(n int) uint64 { return uint64(n) * uint64(n-1) / 2 }

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

func chanSync(n int) (int, time.Duration) {
	table := make(chan uint64)
	var other sync.WaitGroup
	start := time.Now()
	other.Add(1)
	go func() {
		for i := 0; i < n; i++ {
			table <- <-table + 1
		}
		other.Done()
	}()
	value := uint64(0)
	for i := 0; i < n; i++ {
		table <- value
		value = <-table
	}
	elapsed := time.Since(start)
	other.Wait()
	check(value == uint64(n))
	return n, elapsed
}

func nothing() {}

// The sender is prepared first.
func spsc(capacity int, prepare func()) problem {
	return func(n int) (int, time.Duration) {
		values := make(chan uint64, capacity)
		var received inOrder
		start := time.Now()
		go func() {
			prepare()
			sendBelow(values, n)
			close(values)
		}()
		for value := range values {
			received.add(value)
		}
		elapsed := time.Since(start)
		check(received.are(n))
		return n, elapsed
	}
}

func manyToMany(pairs, capacity int) problem {
	return func(n int) (int, time.Duration) {
		values := make(chan uint64, capacity)
		var senders, receivers sync.WaitGroup
		var sum uint64
		var received int64
		start := time.Now()
		for s := 0; s < pairs; s++ {
			s := s
			senders.Add(1)
			go func() {
				for i := s; i < n; i += pairs {
					values <- uint64(i)
				}
				senders.Done()
			}()
			receivers.Add(1)
			go func() {
				mySum, myCount := uint64(0), int64(0)
				for value := range values {
					mySum += value
					myCount++
				}
				atomic.AddUint64(&sum, mySum)
				atomic.AddInt64(&received, myCount)
				receivers.Done()
			}()
		}
		senders.Wait()
		close(values)
		receivers.Wait()
		elapsed := time.Since(start)
		check(sum == sumBelow(n) && received == int64(n))
		return n, elapsed
	}
}

func chanUncontended(n int) (int, time.Duration) {
	const capacity = 100
	n = roundUp(n, capacity)
	values := make(chan uint64, capacity)
	var received inOrder
	start := time.Now()
	for i := 0; i < n; i += capacity {
		for j := i; j < i+capacity; j++ {
			values <- uint64(j)
		}
		for j := 0; j < capacity; j++ {
			received.add(<-values)
		}
	}
	elapsed := time.Since(start)
	check(received.are(n))
	return n, elapsed
}

func chanNonblocking(n int) (int, time.Duration) {
	silent := make(chan uint64)
	empty := 0
	start := time.Now()
	for i := 0; i < n; i++ {
		select {
		case <-silent:
		default:
			empty++
		}
	}
	elapsed := time.Since(start)
	check(empty == n)
	return n, elapsed
}

type page [512]uint64

func itemsOf4KiB(n int) (int, time.Duration) {
	pages := make(chan page, 16)
	var received endsInOrder
	start := time.Now()
	go func() {
		var p page
		for i := 0; i < n; i++ {
			p[0], p[len(p)-1] = uint64(i), uint64(i)
			pages <- p
		}
	}()
	var p page
	for i := 0; i < n; i++ {
		p = <-pages // range would copy it once more
		received.add(p[0], p[len(p)-1])
	}
	elapsed := time.Since(start)
	check(received.are(n))
	return n, elapsed
}

func sendBelow(out chan<- uint64, n int) {
	for i := 0; i < n; i++ {
		out <- uint64(i)
	}
}

func select2(capacity int) problem {
	return func(n int) (int, time.Duration) {
		n = roundUp(n, 2)
		var c [2]chan uint64
		var received [2]inOrder
		for i := range c {
			c[i] = make(chan uint64, capacity)
		}
		start := time.Now()
		for i := range c {
			go sendBelow(c[i], n/2)
		}
		for i := 0; i < n; i++ {
			select {
			case value := <-c[0]:
				received[0].add(value)
			case value := <-c[1]:
				received[1].add(value)
			}
		}
		elapsed := time.Since(start)
		for i := range received {
			check(received[i].are(n / 2))
		}
		return n, elapsed
	}
}

func select8(capacity int) problem {
	return func(n int) (int, time.Duration) {
		n = roundUp(n, 8)
		var c [8]chan uint64
		var received [8]inOrder
		for i := range c {
			c[i] = make(chan uint64, capacity)
		}
		start := time.Now()
		for i := range c {
			go sendBelow(c[i], n/8)
		}
		for i := 0; i < n; i++ {
			select {
			case value := <-c[0]:
				received[0].add(value)
			case value := <-c[1]:
				received[1].add(value)
			case value := <-c[2]:
				received[2].add(value)
			case value := <-c[3]:
				received[3].add(value)
			case value := <-c[4]:
				received[4].add(value)
			case value := <-c[5]:
				received[5].add(value)
			case value := <-c[6]:
				received[6].add(value)
			case value := <-c[7]:
				received[7].add(value)
			}
		}
		elapsed := time.Since(start)
		for i := range received {
			check(received[i].are(n / 8))
		}
		return n, elapsed
	}
}

func selectUncontended(n int) (int, time.Duration) {
	a, b := make(chan uint64, 1), make(chan uint64, 1)
	start := time.Now()
	a <- 0
	for i := 0; i < n; i++ {
		select {
		case value := <-a:
			b <- value + 1
		case value := <-b:
			a <- value + 1
		}
	}
	last := a
	if n%2 == 1 {
		last = b
	}
	value := <-last
	elapsed := time.Since(start)
	check(value == uint64(n))
	return n, elapsed
}

func selectNonblock(n int) (int, time.Duration) {
	noSender, noReceiver := make(chan uint64), make(chan uint64)
	empty, full := make(chan uint64, 1), make(chan uint64, 1)
	taken := 0
	start := time.Now()
	for i := 0; i < n; i++ {
		select {
		case <-noSender:
		default:
			taken++
		}
		select {
		case noReceiver <- 0:
		default:
			taken++
		}
		select {
		case <-empty:
		default:
			taken++
		}
		select {
		case full <- 0:
		default:
			taken++
		}
	}
	elapsed := time.Since(start)
	check(taken == 4*n-1)
	return n, elapsed
}

func ring(goroutines int) problem {
	return func(n int) (int, time.Duration) {
		n = roundUp(n, goroutines)
		links := make([]chan uint64, goroutines)
		for i := range links {
			links[i] = make(chan uint64)
		}
		var done sync.WaitGroup
		start := time.Now()
		for i := 0; i+1 < goroutines; i++ {
			in, out := links[i], links[i+1]
			done.Add(1)
			go func() {
				for value := range in {
					out <- value + 1
				}
				close(out)
				done.Done()
			}()
		}
		token := uint64(0)
		for i := 0; i < n; i += goroutines {
			links[0] <- token + 1
			token = <-links[goroutines-1]
		}
		elapsed := time.Since(start)
		close(links[0])
		done.Wait()
		check(token == uint64(n))
		return n, elapsed
	}
}

func spawn(atOnce int) problem {
	return func(n int) (int, time.Duration) {
		n = roundUp(n, atOnce)
		var ran int64
		start := time.Now()
		for i := 0; i < n; i += atOnce {
			var group sync.WaitGroup
			group.Add(atOnce)
			for j := 0; j < atOnce; j++ {
				go func() {
					atomic.AddInt64(&ran, 1)
					group.Done()
				}()
			}
			group.Wait()
		}
		elapsed := time.Since(start)
		check(ran == int64(n))
		return n, elapsed
	}
}

func resident() float64 {
	file, err := os.Open("/proc/self/smaps_rollup")
	if err != nil {
		panic(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if words := strings.Fields(lines.Text()); words[0] == "Rss:" {
			kib, err := strconv.ParseFloat(words[1], 64)
			check(err == nil)
			return kib * 1024
		}
	}
	panic("there is no Rss in /proc/self/smaps_rollup")
}

func parked(goroutines int) count {
	return func() map[string]float64 {
		gate := make(chan uint64)
		var arrived, left sync.WaitGroup
		arrived.Add(goroutines)
		left.Add(goroutines)
		before := resident()
		for i := 0; i < goroutines; i++ {
			go func() {
				arrived.Done()
				<-gate
				left.Done()
			}()
			if i%256 == 0 {
				runtime.Gosched()
			}
		}
		arrived.Wait()
		time.Sleep(10 * time.Millisecond)
		after := resident()
		close(gate)
		left.Wait()
		return map[string]float64{"bytes": (after - before) / float64(goroutines)}
	}
}

func sieve(primes int) problem {
	return func(n int) (int, time.Duration) {
		prime := uint64(0)
		start := time.Now()
		for i := 0; i < n; i++ {
			stop := make(chan struct{}) // checked by the source alone: the filters are left behind
			in := make(chan uint64)
			go func(out chan<- uint64) {
				for candidate := uint64(2); ; candidate++ {
					select {
					case <-stop:
						return
					default:
					}
					out <- candidate
				}
			}(in)
			for k := 0; k < primes; k++ {
				prime = <-in
				next := make(chan uint64)
				go func(in <-chan uint64, out chan<- uint64, prime uint64) {
					for {
						if candidate := <-in; candidate%prime != 0 {
							out <- candidate
						}
					}
				}(in, next, prime)
				in = next
			}
			close(stop)
		}
		elapsed := time.Since(start)
		check(prime == map[int]uint64{500: 3571, 2000: 17389}[primes])
		return n, elapsed
	}
}

type item [8]uint64

func sendItems(out chan<- item, n int) {
	for i := 0; i < n; i++ {
		var it item
		for w := range it {
			it[w] = uint64(i)
		}
		out <- it
	}
	close(out)
}

// Each word is written and read.
func pipe(n int) (int, time.Duration) {
	items := make(chan item, 128)
	sum := uint64(0)
	start := time.Now()
	go sendItems(items, n)
	for it := range items {
		for _, word := range it {
			sum += word
		}
	}
	elapsed := time.Since(start)
	check(sum == 8*sumBelow(n))
	return n, elapsed
}

func pipeline(n int) (int, time.Duration) {
	var c [3]chan item
	for i := range c {
		c[i] = make(chan item, 128)
	}
	var received endsInOrder
	start := time.Now()
	go sendItems(c[0], n)
	for stage := 0; stage < 2; stage++ {
		in, out := c[stage], c[stage+1]
		go func() {
			for it := range in {
				for w := range it {
					it[w]++
				}
				out <- it
			}
			close(out)
		}()
	}
	for it := range c[2] {
		received.add(it[0]-2, it[7]-2)
	}
	elapsed := time.Since(start)
	check(received.are(n))
	return n, elapsed
}

func filled(words int, value uint64) []uint64 {
	buffer := make([]uint64, words)
	for i := range buffer {
		buffer[i] = value
	}
	return buffer
}

func circulate(n int) (int, time.Duration) {
	full, empty := make(chan []uint64, 4), make(chan []uint64, 4)
	for i := 0; i < 4; i++ {
		empty <- filled(1<<20/8, 1)
	}
	var received endsInOrder
	start := time.Now()
	go func() {
		for i := 0; i < n; i++ {
			buffer := <-empty
			buffer[0], buffer[len(buffer)-1] = uint64(i), uint64(i)
			full <- buffer
		}
		close(full)
	}()
	for buffer := range full {
		received.add(buffer[0], buffer[len(buffer)-1])
		empty <- buffer
	}
	elapsed := time.Since(start)
	check(received.are(n))
	return n, elapsed
}

func compute(x uint64, steps int) uint64 {
	for i := 0; i < steps; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func coarseJobs(microseconds int) problem {
	steps := microseconds * 600
	return func(n int) (int, time.Duration) {
		jobs, results := make(chan uint64, 16), make(chan uint64, 16)
		sum := uint64(0)
		start := time.Now()
		for i := 0; i < 4; i++ {
			go func() {
				for job := range jobs {
					results <- compute(job, steps)
				}
			}()
		}
		go func() {
			for i := 0; i < n; i++ {
				jobs <- uint64(i%4 + 1)
			}
			close(jobs)
		}()
		for i := 0; i < n; i++ {
			sum += <-results
		}
		elapsed := time.Since(start)
		expected := uint64(0)
		for i := 0; i < 4; i++ {
			expected += uint64((n-i+3)/4) * compute(uint64(i+1), steps)
		}
		check(sum == expected)
		return n, elapsed
	}
}

func doubleBuffer(kib, pairs int) problem {
	words := kib << 10 / 8
	return func(n int) (int, time.Duration) {
		each := (n + pairs - 1) / pairs
		type pair struct {
			source, target []uint64
			full, empty    chan []uint64
			received       endsInOrder
		}
		all := make([]pair, pairs)
		for i := range all {
			all[i] = pair{source: filled(words, 1), target: filled(words, 2),
				full: make(chan []uint64, 2), empty: make(chan []uint64, 2)}
			all[i].empty <- filled(words, 3)
			all[i].empty <- filled(words, 3)
		}
		var done sync.WaitGroup
		done.Add(2 * pairs)
		start := time.Now()
		for i := range all {
			p := &all[i]
			go func() {
				for i := 0; i < each; i++ {
					buffer := <-p.empty
					p.source[0], p.source[words-1] = uint64(i), uint64(i)
					copy(buffer, p.source)
					p.full <- buffer
				}
				close(p.full)
				done.Done()
			}()
			go func() {
				for buffer := range p.full {
					copy(p.target, buffer)
					p.received.add(p.target[0], p.target[words-1])
					p.empty <- buffer
				}
				done.Done()
			}()
		}
		done.Wait()
		elapsed := time.Since(start)
		for i := range all {
			check(all[i].received.are(each))
		}
		return each * pairs, elapsed
	}
}

// A connection, which the netpoller knows.
func connection(descriptor int) net.Conn {
	file := os.NewFile(uintptr(descriptor), "socket")
	defer file.Close()
	connection, err := net.FileConn(file)
	check(err == nil)
	return connection
}

func readable(n int) (int, time.Duration) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	check(err == nil)
	ours, theirs := connection(pair[0]), connection(pair[1])
	defer ours.Close()
	defer theirs.Close()
	pass := func(from net.Conn, ball []byte) {
		read, err := from.Read(ball)
		check(err == nil && read == 1)
	}
	var other sync.WaitGroup
	other.Add(1)
	start := time.Now()
	go func() {
		ball := make([]byte, 1)
		for i := 0; i < n; i++ {
			pass(theirs, ball)
			ball[0]++
			theirs.Write(ball)
		}
		other.Done()
	}()
	ball := make([]byte, 1)
	for i := 0; i < n; i++ {
		ours.Write(ball)
		pass(ours, ball)
	}
	elapsed := time.Since(start)
	other.Wait()
	check(ball[0] == byte(n))
	return n, elapsed
}

func wakeWhileHogging() map[string]float64 {
	const wakes = 400
	sent, done := make(chan time.Time, 1), make(chan struct{})
	latencies := make([]float64, 0, wakes)
	go func() {
		for at := range sent {
			latencies = append(latencies, float64(time.Since(at)))
		}
		close(done)
	}()
	for i := 0; i < wakes; i++ {
		time.Sleep(100 * time.Microsecond)
		sent <- time.Now()
		for end := time.Now().Add(500 * time.Microsecond); time.Now().Before(end); {
		}
	}
	close(sent)
	<-done
	check(len(latencies) == wakes)
	sort.Float64s(latencies)
	return map[string]float64{"p50": latencies[wakes/2], "p99": latencies[wakes*99/100]}
}

func main() {
	workers := 1
	if len(os.Args) > 2 {
		workers, _ = strconv.Atoi(os.Args[2])
	}
	problems := map[string]problem{
		"ChanSync": chanSync, "ChanUncontended": chanUncontended, "ChanNonblocking": chanNonblocking,
		"Spsc/1": spsc(1, nothing), "Spsc/16": spsc(16, nothing),
		"Spsc/128": spsc(128, nothing), "Spsc/1024": spsc(1024, nothing),
		// The nearest that Go has to a plain thread.
		"ThreadToFiber": spsc(128, runtime.LockOSThread),
		"Mpmc/128":      manyToMany(4, 128),
		"Select2/0":     select2(0), "Select2/128": select2(128),
		"Select8/0": select8(0), "Select8/128": select8(128),
		"SelectUncontended": selectUncontended, "SelectNonblock": selectNonblock,
		"Ring/1000": ring(1000), "Sieve/500": sieve(500), "Sieve/2000": sieve(2000),
		"Spawn/256": spawn(256), "Spawn/1000": spawn(1000), "Spawn/1000000": spawn(1000000),
		"Pipe64": pipe, "Pipeline4": pipeline, "Items4KiB": itemsOf4KiB, "Circulate1MiB": circulate,
		"Readable": readable,
	}
	for _, us := range []int{1, 17, 100} {
		problems[fmt.Sprint("CoarseJobs/", us)] = coarseJobs(us)
	}
	for _, kib := range []int{64, 256, 1024, 4096, 16384} {
		for _, pairs := range []int{1, 4} {
			problems[fmt.Sprint("DoubleBuffer/", kib, "/", pairs)] = doubleBuffer(kib, pairs)
		}
	}
	counts := map[string]count{"Parked/100000": parked(100000), "WakeWhileHogging": wakeWhileHogging}

	if len(os.Args) < 4 {
		for name := range problems {
			fmt.Println(name)
		}
		for name := range counts {
			fmt.Println(name)
		}
		return
	}
	runtime.GOMAXPROCS(workers)
	atLeast, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		panic(err)
	}
	if once, ok := counts[os.Args[1]]; ok {
		for name, value := range once() {
			fmt.Println(name, value)
		}
		return
	}
	solve, ok := problems[os.Args[1]]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such problem:", os.Args[1])
		os.Exit(2)
	}
	// As Google Benchmark raises it.
	for n := 1; ; {
		done, elapsed := solve(n)
		seconds := elapsed.Seconds()
		if seconds >= atLeast {
			fmt.Println("ns", seconds*1e9/float64(done))
			return
		}
		factor := 10.0
		if seconds > atLeast/10 {
			factor = atLeast * 1.4 / seconds
		}
		n = int(float64(done)*factor) + 1
	}
}
