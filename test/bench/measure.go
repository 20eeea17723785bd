// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/test/harness"
)

// placement is a choice of the nodes that run the pods of a Deployment.
type placement string

const (
	// onLocal places all pods on the consumer's own nodes.
	onLocal placement = "local"
	// inBoth creates a Deployment of the measured size in each of the two clusters, and offloads nothing. This is the fair
	// comparison, because an offloaded pod also consists of two Pod objects, one in each cluster.
	inBoth placement = "in both"
	// onVirtual places all pods on the virtual node.
	onVirtual placement = "offloaded"
)

// sample has the measurements of the creation and deletion of one Deployment.
type sample struct {
	size  int
	where placement
	// created is the time until all pods are Ready in every cluster where a Deployment was created.
	// deleted is the time until neither cluster has any of the pods.
	created, deleted time.Duration
	// cpu is the processor time of all processes in both clusters, from the creation until the
	// clusters are quiet. Idle usage is subtracted.
	cpu time.Duration
	// creating is the processor time cpu, by program. deleting is the processor time by program from the deletion until
	// the clusters are quiet. Idle usage is subtracted.
	creating, deleting usage
	// crossed is the number of bytes between the clusters, from the creation until they are quiet.
	crossed int64
	// creation and deletion are the periods whose requests are counted.
	creation, deletion window
}

// window is a period.
type window struct{ from, to time.Time }

func (w window) holds(t time.Time) bool { return !t.Before(w.from) && t.Before(w.to) }

// memory has the memory of the product's processes after the runs with size pods. Size 0 is before
// the first run.
type memory struct {
	size      int
	processes []ownProcess
}

// ownPrograms has the programs of the product.
var ownPrograms = map[string]bool{apiServer: true, "federation-controller-manager": true, virtualKubelet: true}

const (
	apiServer      = "federation-apiserver"
	virtualKubelet = "federation-virtual-kubelet"
)

// ownProcess is one process of the product.
type ownProcess struct {
	cluster, program string
	rss, peak        int64
}

type results struct {
	samples []sample
	memory  []memory
	// further has the rows of all other measurements.
	further []row
}

func (b *bench) measure(ctx context.Context) (results, error) {
	r := results{memory: []memory{{0, b.resting}}}
	for _, size := range b.options.pods {
		for run := range b.options.runs {
			for _, where := range []placement{onLocal, inBoth, onVirtual} {
				s, err := b.once(ctx, size, where)
				if err != nil {
					return r, err
				}
				fmt.Fprintf(os.Stderr, "%4d pods, run %d, %s: Ready after %s, gone after %s, %s CPU\n",
					size, run+1, where, s.created.Round(time.Millisecond), s.deleted.Round(time.Millisecond), s.cpu)
				r.samples = append(r.samples, s)
			}
		}
		processes, err := b.ownProcesses(ctx)
		if err != nil {
			return r, err
		}
		r.memory = append(r.memory, memory{size, processes})
	}
	return r, nil
}

func (b *bench) once(ctx context.Context, size int, where placement) (sample, error) {
	s := sample{size: size, where: where}
	clusters, namespace := []*harness.Cluster{b.rome}, vanilla
	switch where {
	case inBoth:
		clusters = append(clusters, b.milan)
	case onVirtual:
		namespace = offloaded
	}
	// The end of the creation is observed where the Deployments are; the end of the deletion also
	// in the provider's cluster.
	var origins []*podWatch
	for _, cluster := range clusters {
		w, err := watchPods(ctx, cluster, namespace, nil)
		if err != nil {
			return s, err
		}
		defer w.stop()
		origins = append(origins, w)
	}
	sides := origins
	if where == onVirtual {
		remote, err := watchPods(ctx, b.milan, b.remote, nil)
		if err != nil {
			return s, err
		}
		defer remote.stop()
		sides = append(sides, remote)
	}
	if err := b.quiet(ctx); err != nil {
		return s, err
	}
	before, err := b.cpu(ctx)
	if err != nil {
		return s, err
	}
	crossed, err := b.crossed(ctx)
	if err != nil {
		return s, err
	}
	s.creation.from = time.Now()
	deployment := deployment(size, where)
	for _, cluster := range clusters {
		if _, err := cluster.Kube.AppsV1().Deployments(namespace).Create(ctx, deployment,
			metav1.CreateOptions{}); err != nil {
			return s, err
		}
	}
	for _, w := range origins {
		ready, err := w.until(ctx, fmt.Sprintf("%d Ready pods in %s", size, namespace),
			func(_, ready int) bool { return ready == size })
		if err != nil {
			return s, err
		}
		s.created = max(s.created, ready.Sub(s.creation.from))
	}
	if err := b.quiet(ctx); err != nil {
		return s, err
	}
	s.creation.to = time.Now()
	after, err := b.cpu(ctx)
	if err != nil {
		return s, err
	}
	now, err := b.crossed(ctx)
	if err != nil {
		return s, err
	}
	s.crossed = now - crossed
	s.creating = after.since(before, b.idle, s.creation.to.Sub(s.creation.from))
	s.cpu = s.creating.sum()

	s.deletion.from = time.Now()
	for _, cluster := range clusters {
		if err := cluster.Kube.AppsV1().Deployments(namespace).Delete(ctx, deployment.Name,
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
			return s, err
		}
	}
	for _, side := range sides {
		gone, err := side.until(ctx, "no pods in "+side.namespace, func(all, _ int) bool { return all == 0 })
		if err != nil {
			return s, err
		}
		s.deleted = max(s.deleted, gone.Sub(s.deletion.from))
	}
	if err := b.quiet(ctx); err != nil {
		return s, err
	}
	s.deletion.to = time.Now()
	last, err := b.cpu(ctx)
	s.deleting = last.since(after, b.idle, s.deletion.to.Sub(s.deletion.from))
	return s, err
}

// deployment returns a Deployment for the playground's fake nodes, or for the virtual node if where
// is onVirtual.
func deployment(size int, where placement) *appsv1.Deployment {
	labels := map[string]string{"app": "bench"}
	spec := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "example.com/never-pulled", ImagePullPolicy: corev1.PullNever}},
	}
	if where != onVirtual {
		spec.NodeSelector = map[string]string{fakeLabel: fakeValue}
		spec.Tolerations = []corev1.Toleration{{Key: fakeTaint, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoSchedule}}
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(size)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

// quiet waits until both kube-apiservers together receive at most ten requests within a second.
func (b *bench) quiet(ctx context.Context) error {
	const calm = 10
	last, since := int64(-1), time.Now()
	return harness.Eventually(ctx, patience, "both clusters to be quiet for a second",
		func(ctx context.Context) (bool, string, error) {
			if last >= 0 && time.Since(since) < time.Second {
				return false, "not yet a second", nil
			}
			now, err := b.requests(ctx)
			if err != nil {
				return false, "", err
			}
			more := now - last
			first := last < 0
			last, since = now, time.Now()
			return !first && more <= calm, fmt.Sprintf("%d requests in a second", more), nil
		})
}

func (b *bench) requests(ctx context.Context) (int64, error) {
	var sum int64
	for _, cluster := range []*harness.Cluster{b.rome, b.milan} {
		text, err := cluster.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return 0, err
		}
		count, err := countRequests(string(text))
		if err != nil {
			return 0, fmt.Errorf("metrics of %s: %w", cluster.Name, err)
		}
		sum += count
	}
	return sum, nil
}

// usage has processor time by "cluster program".
type usage map[string]time.Duration

func (u usage) sum() (sum time.Duration) {
	for _, used := range u {
		sum += used
	}
	return sum
}

// since returns the processor time by program that was used after the measurement before. elapsed is the time between
// the two measurements. The result does not include idle, the number of cores that each program uses in idle clusters.
func (u usage) since(before usage, idle map[string]float64, elapsed time.Duration) usage {
	result := usage{}
	for program, used := range u {
		result[program] = used - before[program] - time.Duration(idle[program]*float64(elapsed))
	}
	return result
}

// cpu returns the processor time of all processes on all nodes.
func (b *bench) cpu(ctx context.Context) (usage, error) {
	all := usage{}
	for _, node := range b.nodes {
		processes, err := b.playground.Processes(ctx, node)
		if err != nil {
			return nil, err
		}
		cluster, _, _ := strings.Cut(node, "-")
		for _, p := range processes {
			all[cluster+" "+p.Program()] += p.CPU
		}
	}
	return all, nil
}

// measureIdle records the idle processor usage of both clusters, and the memory of the product's
// processes.
func (b *bench) measureIdle(ctx context.Context) error {
	if err := b.quiet(ctx); err != nil {
		return err
	}
	before, err := b.cpu(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	timer := time.NewTimer(idlePeriod)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	after, err := b.cpu(ctx)
	if err != nil {
		return err
	}
	elapsed := time.Since(start)
	b.idle = map[string]float64{}
	for program, used := range after.since(before, nil, elapsed) {
		b.idle[program] = float64(used) / float64(elapsed)
	}
	b.resting, err = b.ownProcesses(ctx)
	return err
}

// ownProcesses returns the product's processes on all nodes.
func (b *bench) ownProcesses(ctx context.Context) ([]ownProcess, error) {
	var found []ownProcess
	for _, node := range b.nodes {
		processes, err := b.playground.Processes(ctx, node)
		if err != nil {
			return nil, err
		}
		cluster, _, _ := strings.Cut(node, "-")
		for _, p := range processes {
			program := p.Program()
			if !ownPrograms[program] {
				continue
			}
			for _, argument := range p.Args {
				if strings.Contains(argument, "identity-signer") {
					program = "identity signer"
				}
			}
			found = append(found, ownProcess{cluster, program, p.RSS, p.PeakRSS})
		}
	}
	return found, nil
}
