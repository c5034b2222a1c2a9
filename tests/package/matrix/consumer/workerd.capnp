using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (services = [(name = "consumer", worker = (
  modules = [
    (name = "workerd.js", esModule = embed "dist/workerd.js"),
    (name = "simdnorm.wasm", wasm = embed "dist/simdnorm.wasm"),
  ],
  compatibilityDate = "2026-11-01",
))]);
