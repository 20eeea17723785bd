// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

// protobufThenJSON avoids JSON for the kinds that have a protobuf form. Custom resources have none.
const protobufThenJSON = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON

// off is the address of a listener that is not opened.
const off = "0"

// NewScheme returns the kinds of Kubernetes, of the federation API and of the Multi-Cluster
// Services API.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(kubescheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(mcsv1alpha1.Install(scheme))
	return scheme
}

// useProtobuf makes the clients of controller-runtime use protobuf for the kinds of the federation
// API, too, and not only for the kinds of Kubernetes. The setting is global in controller-runtime.
var useProtobuf = sync.OnceFunc(func() { utilruntime.Must(apiutil.AddToProtobufScheme(v1alpha1.AddToScheme)) })

var loggerIsSet sync.Once

// setLogger sets the global logger of controller-runtime to the logger of the first manager. Without
// one, controller-runtime logs a warning. It is set once, because setting it is not safe for concurrent
// use.
func setLogger(logger logr.Logger) {
	loggerIsSet.Do(func() { ctrl.SetLogger(logger) })
}

// NewManager returns the manager of the controllers on controller-runtime. It opens no
// port and elects no leader: the process serves health and metrics, and starts the
// manager once it leads.
//
// The manager caches the kinds that its controllers watch, without managed fields, pods
// as TrimPod leaves them, and of RoleBindings only those that controllers created. Reading
// any other kind through its client is an error, except Secrets, ConfigMaps and Events,
// which are read from the API server.
func NewManager(connection *rest.Config, logger logr.Logger) (ctrl.Manager, error) {
	connection = rest.CopyConfig(connection)
	// Clients send a kind as protobuf if it has such a form.
	connection.ContentType = ""
	connection.AcceptContentTypes = protobufThenJSON
	useProtobuf()
	setLogger(logger)
	manager, err := ctrl.NewManager(connection, ctrl.Options{
		Scheme: NewScheme(),
		Logger: logger,
		Cache: cache.Options{
			DefaultTransform:            remote.Trim,
			ReaderFailOnMissingInformer: true,
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}:         {Transform: TrimPod},
				&rbacv1.RoleBinding{}: {Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})},
			},
		},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Event{}},
		}},
		Metrics:                metricsserver.Options{BindAddress: off},
		HealthProbeBindAddress: off,
		PprofBindAddress:       off,
		LeaderElection:         false,
		Controller: config.Controller{
			// The names are those of --controllers, which are unique in a process. Tests run
			// several processes' controllers in one.
			SkipNameValidation: ptr.To(true),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager of controllers: %w", err)
	}
	return manager, nil
}
